"use strict";

// Every text of a server, a model or an event reaches the page through `textContent`. The content
// security policy also forbids the browser to read any text as markup.

const VIEWS = { search: searchView, catalog: catalogView, trust: trustView, conversations: conversationsView, overview: overviewView };
const TOKEN_KEY = "shortlist-token";
const ROW_HEIGHT = 46;
const POLL_MS = 1500;
const HITS_SHOWN_FIRST = 5;
const DENIED_SHOWN_FIRST = 8;

let token = takeToken();
let startAnswer = null;
let leaveView = () => {};
let visitNumber = 0;

// Elements

function element(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "text") node.textContent = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "share") node.style.setProperty("--share", String(value));
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

function replaceContent(node, ...children) {
  node.replaceChildren();
  append(node, children);
}

function svgElement(name, properties, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(properties)) node.setAttribute(key, String(value));
  if (text !== undefined) node.textContent = text;
  return node;
}

const card = (...children) => element("section", { class: "card" }, ...children);
const pill = (text, tone = "") => element("span", { class: `pill ${tone}`, text });
const notice = (text, tone = "") => element("p", { class: `notice ${tone} text`, text });
const muted = (text) => element("span", { class: "muted small text", text });

function toolId(id) {
  const slash = id.indexOf("/");
  const server = element("span", { class: "server" }, breakable(id.slice(0, slash + 1)));
  return element("span", { class: "id" }, slash > 0 ? server : null, breakable(id.slice(slash + 1)));
}

// An id may break after the marks that join its words.
function breakable(id) {
  return id.split(/(?<=[_/.-])/).flatMap((part) => [part, element("wbr")]);
}

function bar(share, kind = "") {
  return element("span", { class: `bar ${kind}`, "aria-hidden": "true" }, element("span", { share }));
}

function viewHead(title, text) {
  return element("div", { class: "head" }, element("h1", { text: title }), element("p", { class: "muted", text }));
}

function emptyNotice(title, ...text) {
  return element("div", { class: "empty" }, element("strong", { text: title }), element("p", {}, ...text));
}

function table(columns, rows, label) {
  const header = columns.map((column) =>
    element("th", { scope: "col", class: `${column.number ? "number" : ""} ${column.wide ? "wide" : ""}`.trim() || null, text: column.title }));
  const body = element("table", {}, element("thead", {}, element("tr", {}, header)), element("tbody", {}, rows));
  return label ? element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, body) : body;
}

const box = (label, ...children) => element("div", { class: "box", tabindex: "0", role: "region", "aria-label": label }, ...children);

const cell = (...children) => element("td", {}, ...children);
const numberCell = (value) => element("td", { class: "number" }, value);
// A cell of a column that a narrow window leaves out, so that the others stay whole.
const wideCell = (value) => element("td", { class: "number wide" }, value);
const number = (value) => (value === null || value === undefined ? "–" : Number(value).toLocaleString("en"));
const counted = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : noun.endsWith("ch") ? "es" : "s"}`;
const brief = (value) => (value < 1e6 ? number(value) : new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value));
const score = (value) => (value === null ? "–" : Number(value).toPrecision(3));
const ms = (value) => (value === null || value === undefined ? "–" : `${value >= 100 ? Math.round(value).toLocaleString("en") : Number(value).toFixed(1)} ms`);

function clock(at) {
  const time = new Date(at);
  return Number.isNaN(time.getTime()) ? String(at).slice(0, 8) : time.toLocaleTimeString("en-GB");
}

function moment(at) {
  const time = new Date(at);
  return Number.isNaN(time.getTime()) ? String(at).slice(0, 16)
    : time.toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
}

function showStatus(text, tone = "good") {
  const status = document.getElementById("status");
  replaceContent(status, notice(text, tone));
  setTimeout(() => { if (status.textContent === text) status.replaceChildren(); }, 6000);
}

function debounced(action, wait) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), wait);
  };
}

// Requests

function takeToken() {
  const hash = decodeURIComponent(location.hash.slice(1));
  if (hash && hash !== "main" && !(hash in VIEWS)) {
    sessionStorage.setItem(TOKEN_KEY, hash);
    history.replaceState(null, "", `${location.pathname}#search`);
  }
  return sessionStorage.getItem(TOKEN_KEY);
}

async function request(path, parameters, options = {}) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters || {})) {
    if (value !== null && value !== undefined && value !== "") query.set(key, value);
  }
  const response = await fetch(`api/${path}?${query}`, {
    ...options,
    headers: { authorization: `Bearer ${token}`, ...options.headers },
  });
  const answer = await response.json();
  if (response.status === 401) {
    sessionStorage.removeItem(TOKEN_KEY);
    askForToken("This token is not valid here. Use the address that the command printed last.");
  }
  if (!response.ok) throw new Error(answer.error || `status ${response.status}`);
  return answer;
}

function write(path, values) {
  return request(path, null, { method: "POST", body: JSON.stringify(values), headers: { "content-type": "application/json" } });
}

async function load(place, action) {
  try {
    await action();
  } catch (error) {
    if (token && place.isConnected) replaceContent(place, notice(error.message, "bad"));
  }
}

// Frame

function askForToken(text) {
  token = null;
  leaveView();
  leaveView = () => {};
  const field = element("input", { type: "password", autocomplete: "off", required: true });
  const form = element("form", { class: "stack" }, element("label", {}, "Operator's token", field),
    element("div", {}, element("button", { class: "primary", text: "Open" })));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    token = field.value.trim();
    sessionStorage.setItem(TOKEN_KEY, token);
    begin();
  });
  replaceContent(document.getElementById("main"), element("div", { class: "gate stack" }, viewHead("A token opens this page", text), card(form)));
  field.focus();
}

async function begin() {
  if (!token) {
    askForToken("Open the address that shortlist inspect printed, or paste the token of the gateway's operator.");
    return;
  }
  try {
    startAnswer = await request("start");
    searchInput.profile = Object.keys(startAnswer.profiles)[0] || "";
  } catch (error) {
    if (token) replaceContent(document.getElementById("main"), notice(error.message, "bad"));
    return;
  }
  document.getElementById("subject").textContent = startAnswer.name.split(/[\\/]/).pop();
  document.getElementById("subject").title = startAnswer.name;
  show();
}

function show() {
  const name = decodeURIComponent(location.hash.slice(1));
  if (name === "main") return;
  const view = name in VIEWS ? name : "search";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (!startAnswer) return;
  leaveView();
  leaveView = () => {};
  visitNumber += 1;
  const main = document.getElementById("main");
  main.replaceChildren();
  document.title = `${view[0].toUpperCase()}${view.slice(1)} · shortlist`;
  VIEWS[view](main, visitNumber);
}

// Search

const searchInput = { query: "", profile: "", scopes: "", allowed: "", tool: "" };

function searchView(main) {
  const results = element("div", { class: "stack" });
  const why = element("div", { class: "stack" });
  const query = element("input", { class: "query", type: "search", placeholder: "What does the agent want to do?", autocomplete: "off", value: searchInput.query, "aria-label": "Query" });
  const scopes = element("input", { type: "text", placeholder: "such as billing:read, admin", value: searchInput.scopes });
  const allowed = element("input", { type: "text", placeholder: "all tools, or globs such as github/*", value: searchInput.allowed });
  const profiles = Object.keys(startAnswer.profiles);
  const profile = element("select", {}, element("option", { value: "", text: "no profile" }),
    profiles.map((name) => element("option", { value: name, text: name, selected: name === searchInput.profile })));
  const options = element("select", { "aria-label": "Tiers" }, element("option", { value: "", text: "all tiers" }),
    startAnswer.tiers.map((tier) => element("option", { value: tier, text: tier })));
  let latestSearch = 0;

  async function search() {
    searchInput.query = query.value.trim();
    Object.assign(searchInput, { profile: profile.value, scopes: scopes.value, allowed: allowed.value, tiers: options.value });
    const searchNumber = ++latestSearch;
    if (!searchInput.query) {
      replaceContent(results, emptyNotice("Ask as an agent would", "Type what a user wants, in any words. Each tier answers beside the others, with the score of every stage."));
      replaceContent(why);
      return;
    }
    filters.querySelector("summary").textContent = filtersText();
    if (!results.querySelector(".tiers")) replaceContent(results, muted("Searching…"));
    await load(results, async () => {
      const began = performance.now();
      const answer = await request("search", parameters());
      if (searchNumber !== latestSearch) return;
      results.dataset.ms = (performance.now() - began).toFixed(1);
      const tiers = element("div", { class: "tiers" }, answer.gateway ? gatewayCard(answer.gateway) : null, answer.tiers.map(tierCard));
      const all = element("button", { text: "Show all hits", onclick: () => { tiers.toggleAttribute("data-all"); all.textContent = tiers.hasAttribute("data-all") ? `Show the first ${HITS_SHOWN_FIRST} hits` : "Show all hits"; } });
      const isLong = answer.tiers.some((tier) => tier.hits.length > HITS_SHOWN_FIRST);
      replaceContent(results, summary(answer), tiers, isLong ? element("div", {}, all) : null);
      replaceContent(why, missing, denials(answer.denied));
      if (searchInput.tool) await explain(searchInput.tool);
    });
  }

  const parameters = () => ({ query: searchInput.query, profile: searchInput.profile, scopes: searchInput.scopes, allowed: searchInput.allowed, tiers: searchInput.tiers });

  function summary(answer) {
    const unmatched = answer.unmatched.length ? notice(`Not in the catalog: ${answer.unmatched.join(", ")}`, "warn") : null;
    return [element("p", { class: "muted small" }, `${number(answer.permitted)} of ${counted(answer.tools, "tool")} permitted`,
      answer.denied.quarantined ? `, ${number(answer.denied.quarantined)} quarantined` : ""), unmatched];
  }

  // What a model reads, after the decision whether any tool fits.
  function gatewayCard(gateway) {
    const hits = gateway.parts.flatMap((part) => [
      gateway.parts.length > 1 ? element("li", { class: "hit part" }, element("strong", { class: "text", text: part.query })) : null,
      part.hits.map((entry) => hit({ ...entry, offered: true, stages: [] }, false))]);
    return element("section", { class: "card tier gateway", "aria-label": "As the gateway answers" },
      element("div", { class: "spread" }, element("h2", { text: "As the gateway answers" }), element("span", { class: "muted small", text: gateway.tier })),
      gateway.abstained ? notice(`No tool is offered: ${gateway.reason || "no tool fits"}`, "warn") : element("ol", {}, hits),
      element("details", {}, element("summary", { text: "The text that the model reads" }), element("pre", { tabindex: "0", text: gateway.text })));
  }

  function tierCard(tier) {
    const problem = tier.asked !== tier.tier ? notice(`Ran ${tier.tier}: ${tier.tier_reason}`, "warn") : null;
    const abstained = tier.abstained ? notice(`Abstained: ${tier.reason || "no tool fits"}`, "warn") : null;
    const judged = !tier.abstained && tier.fits !== null ? muted(`A tool fits with probability ${tier.fits.toFixed(2)}`) : null;
    return element("section", { class: "card tier", "aria-label": `Tier ${tier.asked}` },
      element("div", { class: "spread" }, element("h2", { text: tier.asked }), element("span", { class: "muted small number", text: ms(tier.total_ms) })),
      judged ? element("p", {}, judged) : null, problem, abstained,
      tier.hits.length ? element("ol", {}, tier.hits.map((entry, place) => hit(entry, place >= HITS_SHOWN_FIRST))) : element("p", { class: "muted small", text: "No tool found." }));
  }

  function hit(entry, isMore) {
    const bars = entry.stages.flatMap((stage) => [
      element("span", { text: stage.name }), bar(stage.share, stage.name),
      element("span", { class: "number", text: `${score(stage.score)} · #${stage.rank}` })]);
    return element("li", { class: `hit${entry.offered ? "" : " out"}${isMore ? " more" : ""}`, "data-tool": entry.id, "data-chosen": entry.id === searchInput.tool },
      element("span", { class: "place", text: entry.rank }),
      element("div", {},
        element("button", { class: "plain", onclick: () => explain(entry.id, true), "aria-label": `Why ${entry.id}?` }, toolId(entry.id)),
        entry.offered ? null : [" ", pill("not offered", "warn")],
        element("p", { class: "text", text: entry.summary })),
      element("div", { class: "bars" }, bars));
  }

  function denials(denied) {
    if (!denied.count) return null;
    const rows = denied.nearest.map((refusal) => element("tr", {},
      cell(element("button", { class: "plain", onclick: () => explain(refusal.tool, true) }, toolId(refusal.tool))),
      cell(pill(refusal.kind.replaceAll("_", " "), refusal.kind === "quarantined" ? "bad" : "warn")),
      cell(element("span", { class: "text", text: refusal.reason }), refusal.findings.map((text) => element("div", { class: "muted small text", text })),
        refusal.unlocked_by.length ? element("div", { class: "muted small text", text: `unlocked by ${refusal.unlocked_by.join(", ")}` }) : null)));
    const list = element("div", {}), hidden = rows.length - DENIED_SHOWN_FIRST;
    const show = (shown) => replaceContent(list, table([{ title: "tool" }, { title: "kind" }, { title: "reason" }], rows.slice(0, shown), "Denied tools"));
    const all = element("button", { text: `Show ${number(hidden)} more`, onclick: () => { show(rows.length); all.remove(); } });
    show(DENIED_SHOWN_FIRST);
    return card(element("h2", { text: `Denied: ${counted(denied.count, "tool")}, the nearest first` }), list,
      hidden > 0 ? element("div", {}, all) : null, denied.count > rows.length ? muted(`Only the nearest ${number(rows.length)} are listed. "Limited to" narrows them.`) : null);
  }

  const toolChoices = element("datalist", { id: "known-tools" });
  const toolField = element("input", { type: "text", list: "known-tools", autocomplete: "off", placeholder: "server/name", value: searchInput.tool, class: "mono" });
  const panel = element("div", { class: "stack" });
  const missingForm = element("form", { class: "row end" },
    element("label", { class: "wide" }, "Tool that you miss", toolField, toolChoices),
    element("button", { text: "Explain" }));
  missingForm.addEventListener("submit", (event) => { event.preventDefault(); explain(toolField.value.trim(), true); });
  toolField.addEventListener("input", debounced(async () => {
    const ids = await request("ids", { text: toolField.value }).catch(() => []);
    replaceContent(toolChoices, ids.map((id) => element("option", { value: id })));
  }, 150));
  const missing = card(element("h2", { text: "Why this tool, or why not?" }), missingForm, panel);

  async function explain(tool, focus = false) {
    searchInput.tool = toolField.value = tool;
    for (const node of results.querySelectorAll("[data-tool]")) node.toggleAttribute("data-chosen", node.dataset.tool === tool);
    if (!tool) { replaceContent(panel); return; }
    await load(panel, async () => {
      const answer = await request("explain", { ...parameters(), tool });
      showExplanation(answer, null);
      if (focus) panel.querySelector("h2").focus();
    });
  }

  function showExplanation(answer, before) {
    const rank = (explanation) => (explanation.rank === null ? "not found" : `#${explanation.rank}`);
    const stages = [...new Set(answer.explanations.flatMap((explanation) => Object.keys(explanation.stages)))];
    const rows = answer.explanations.map((explanation, place) => element("tr", {},
      cell(element("strong", { text: explanation.asked })),
      cell(before ? [element("span", { class: "muted", text: `${rank(before.explanations[place])} → ` })] : null,
        element("span", { class: "rank", text: rank(explanation) })),
      stages.map((name) => {
        const stage = explanation.stages[name];
        return wideCell(stage ? `${score(stage.score)} · #${stage.rank}` : name in explanation.stages ? "no match" : "–");
      }),
      cell(element("span", { class: "text", text: explanation.reason }))));
    const add = element("button", { class: "primary", text: "Add this query as an example query", disabled: !answer.can_add });
    add.addEventListener("click", async () => {
      add.disabled = true;
      try {
        const after = await write("examples", { ...parameters(), tool: answer.tool });
        showExplanation(after, answer);
        panel.querySelector("h2").focus();
        showStatus(`Written to ${startAnswer.examples}`);
        const open = searchInput.tool;
        searchInput.tool = "";
        await search();
        searchInput.tool = open;
        toolField.value = open;
        showExplanation(after, answer);
      } catch (error) {
        showStatus(error.message, "bad");
        add.disabled = false;
      }
    });
    const parts = (match) => (match.parts.length ? match.parts.join(", ") : "nowhere");
    replaceContent(panel,
      element("h2", { tabindex: "-1" }, toolId(answer.tool)),
      table([{ title: "tier" }, { title: "rank" }, ...stages.map((title) => ({ title, number: true, wide: true })), { title: "why" }], rows, "Ranks of the tool"),
      element("h3", { text: "Words of the query, and where the tool has them" }),
      answer.words.length ? element("div", { class: "words" }, answer.words.map((match) =>
        element("span", { class: `word${match.parts.length ? "" : " missing"}` }, element("span", { class: "text", text: match.word }), " ", element("small", { text: parts(match) }))))
        : muted("The query has no word that is searched for."),
      element("h3", { text: `Example queries${answer.examples.sources.length ? ` (${answer.examples.sources.join(", ")})` : ""}` }),
      answer.examples.queries.length ? element("ul", { class: "dots small" }, answer.examples.queries.map((text) => element("li", { class: "text", text }))) : muted("None."),
      answer.call_rules.length ? [element("h3", { text: "Rules about its calls" }),
        element("ul", { class: "dots small" }, answer.call_rules.map((text) => element("li", { class: "text", text })))] : null,
      element("h3", { text: "What would bring it up" }),
      element("ul", { class: "dots small" }, answer.advice.map((text) => element("li", { class: "text", text }))),
      element("div", { class: "row" }, add, answer.can_add ? null : muted("No file for example queries is set: restart with --examples FILE.")));
  }

  const filtersText = () => `Filters: ${[profile.value || "no profile", scopes.value, allowed.value, options.value || "all tiers"].filter(Boolean).join(", ")}`;
  const filters = element("details", { class: "filters", open: !matchMedia("(max-width: 560px)").matches }, element("summary", { text: filtersText() }),
    element("div", { class: "row" },
      profiles.length ? element("label", {}, "Profile", profile) : null,
      element("label", { class: "wide" }, "Scopes", scopes),
      element("label", { class: "wide" }, "Limited to", allowed),
      element("label", {}, "Tiers", options)));
  const form = element("form", { class: "stack", role: "search" }, query, filters);
  form.addEventListener("submit", (event) => { event.preventDefault(); search(); });
  profile.addEventListener("change", () => { scopes.value = (startAnswer.profiles[profile.value] || []).join(", "); search(); });
  options.addEventListener("change", search);
  for (const field of [query, scopes, allowed]) field.addEventListener("input", debounced(search, 220));
  append(main, [viewHead("Search", "Why was this tool offered, and why not that one?"), form, results, why]);
  search();
  query.focus();
}

// Catalog

function catalogView(main) {
  const list = element("div", { class: "stack" }, muted("Counting tokens…"));
  append(main, [viewHead("Catalog", "What each server brings, what it costs, and what cannot be told apart."), list]);
  load(list, async () => draw(await request("servers")));

  function draw(answer) {
    if (!answer.tools && !answer.servers.length) {
      replaceContent(list, emptyNotice("No tools yet", "No server of this configuration has run here. Start the gateway once, then reload."));
      return;
    }
    const largest = Math.max(1, ...answer.servers.map((server) => server.tokens));
    const tools = element("div", { class: "stack" });
    const detail = element("div", { class: "stack" });
    const rows = answer.servers.map((server) => {
      const row = element("tr", {},
        cell(element("button", { class: "plain text", onclick: () => open(server.name, row) }, element("strong", {}, breakable(server.name || "no server"))),
          Object.entries(server.known_as).map(([name, count]) => element("div", { class: "muted small text", text: `${counted(count, "tool")} known as ${name}` }))),
        cell(stateOf(server)),
        numberCell(number(server.tools)),
        element("td", { class: "number" }, number(server.tokens), bar(server.tokens / largest)),
        cell(server.quarantined ? [trustLink(`${number(server.quarantined)} quarantined`, "bad"), " "] : null,
          server.warned ? trustLink(`${number(server.warned)} with a warning`, "warn") : server.quarantined ? null : muted("none")));
      return row;
    });

    function open(name, row) {
      for (const other of rows) other.toggleAttribute("data-chosen", other === row);
      toolList(tools, detail, name);
    }

    replaceContent(list, configNotices(answer),
      element("p", { class: "muted" }, `${counted(answer.tools, "tool")} of ${counted(answer.servers.length, "server")}; all definitions take `,
        element("strong", { text: `${number(answer.tokens)} tokens` }), ` (${answer.encoding})`),
      card(table([{ title: "server" }, { title: "state" }, { title: "tools", number: true }, { title: "tokens", number: true }, { title: "warnings" }], rows.map((row, place) => [row, troubleRow(answer.servers[place], 5, draw)]), "Servers"),
        answer.commands.length ? element("p", { class: "muted small text" }, "Add a server: ", answer.commands.map((text) => element("code", { text }))) : null),
      element("div", { class: "split" }, tools, detail), groupsCard("Near twins", "Tools with almost the same text: a search cannot tell them apart.", answer.twins.map((ids) => ids.map(toolId))),
      groupsCard("Collisions", "Definitions that claimed the id of another one.", answer.collisions.map((clash) => [toolId(clash.id), muted(clash.identical ? "repeated word for word" : `held as ${clash.kept_as}`)])));
    if (rows.length === 1) open(answer.servers[0].name, rows[0]);
  }
}

const trustLink = (text, tone) => element("a", { class: `pill ${tone}`, href: "#trust", text });

function configNotices(answer) {
  return [answer.config_problem ? notice(answer.config_problem, "bad") : null, answer.note ? notice(answer.note) : null];
}

// The row below a server's: what is wrong, what mends it, and its buttons.
function troubleRow(server, columns, redraw) {
  if (!server.actions.length && !server.problems.length) return null;
  return element("tr", { class: "trouble" }, element("td", { colspan: columns },
    server.problems.map((text) => element("div", { class: "small text", text })),
    server.repair ? element("div", { class: "muted small text", text: server.repair }) : null, serverButtons(server, redraw)));
}

const ACTION_EFFECTS = { start: "Start it now", stop: "Running calls end; the next call starts it again", disable: "In the configuration file: the gateway leaves it out", enable: "In the configuration file" };

// The actions that work now. `redraw` gets the servers afterwards.
function serverButtons(server, redraw) {
  if (!server.actions.length) return null;
  const row = element("div", { class: "row actions" });
  for (const action of server.actions) {
    const verb = action[0].toUpperCase() + action.slice(1);
    row.append(element("button", { class: "small", text: verb, title: ACTION_EFFECTS[action], "aria-label": `${verb} ${server.name}`, "data-server": server.name, onclick: act(action) }));
  }
  function act(action) {
    return async () => {
      for (const button of row.children) button.disabled = true;
      showStatus(`${verb} ${server.name}…`, "good");
      try {
        const answer = await write("server", { name: server.name, action });
        if (!row.isConnected) return;
        redraw(answer);
        const after = answer.servers.find((other) => other.name === server.name);
        showStatus(`${server.name}: ${after ? stateText(after) : "removed"}`, after && after.state === "failed" ? "bad" : "good");
        const next = [...document.querySelectorAll(".actions button")].find((button) => button.dataset.server === server.name);
        if (next) next.focus();
      } catch (error) {
        showStatus(error.message, "bad");
        for (const button of row.children) button.disabled = false;
      }
    };
  }
  return row;
}

const STATE_TEXTS = { known: "not running", configured: "never started", "awaiting consent": "wants a login" };
const stateText = (server) => STATE_TEXTS[server.state] || server.state;

function stateOf(server) {
  if (server.state === null) return muted("saved");
  const tones = { started: "good", failed: "bad", hangs: "bad", "not usable": "bad", "awaiting consent": "warn", ended: "warn" };
  return [pill(stateText(server), tones[server.state] || ""), server.state_at ? element("div", { class: "muted small", text: moment(server.state_at) }) : null];
}

function groupsCard(title, text, groups) {
  return card(element("div", {}, element("h2", { text: title }), element("p", { class: "muted small", text })),
    groups.length ? element("ul", { class: "list small" }, groups.map((group) => element("li", { class: "row" }, group))) : muted("None."));
}

function toolList(place, detail, server) {
  const filter = element("input", { type: "search", placeholder: "Filter by id or description", "aria-label": `Filter the tools of ${server || "no server"}` });
  const list = element("div", {});
  let firstRow = 0;
  async function refill() {
    await load(list, async () => {
      const answer = await request("tools", { text: filter.value, start: firstRow, server });
      const rows = answer.tools.map((tool) => element("tr", {},
        cell(element("button", { class: "plain", onclick: () => definition(detail, tool.id) }, toolId(tool.id)), element("div", { class: "muted small text", text: tool.summary })),
        numberCell(number(tool.tokens)),
        cell(tool.level ? pill(tool.level === "warn" ? "warning" : "quarantined", tool.level === "warn" ? "warn" : "bad") : null, tool.twins > 1 ? pill(`${tool.twins} alike`) : null)));
      const more = answer.start + answer.tools.length;
      replaceContent(list, rows.length ? box("Tools of a server", table([{ title: `tool (${number(answer.count)})` }, { title: "tokens", number: true }, { title: "" }], rows, null)) : muted("No tool contains this."),
        element("div", { class: "row" },
          firstRow > 0 ? element("button", { text: "Back", onclick: () => { firstRow = Math.max(0, firstRow - 100); refill(); } }) : null,
          more < answer.count ? element("button", { text: `Next of ${number(answer.count)}`, onclick: () => { firstRow = more; refill(); } }) : null));
    });
  }
  filter.addEventListener("input", debounced(() => { firstRow = 0; refill(); }, 200));
  const title = element("h2", { tabindex: "-1", text: `Tools of ${server || "no server"}` });
  replaceContent(place, card(element("div", { class: "spread" }, title, filter), list));
  replaceContent(detail);
  refill().then(() => title.focus());
}

function definition(place, id) {
  load(place, async () => {
    const tool = await request("tool", { id });
    const title = element("h2", { tabindex: "-1" }, toolId(tool.id));
    replaceContent(place, card(title,
      element("div", { class: "row" }, pill(counted(tool.tokens, "token")), tool.known_as ? pill(`known as ${tool.known_as}`) : null,
        tool.flag ? pill(tool.flag.level === "warn" ? "warning" : "quarantined", tool.flag.level === "warn" ? "warn" : "bad") : null,
        tool.twins.length ? muted(`Near twins: ${tool.twins.join(", ")}`) : null),
      tool.flag ? notice(tool.flag.sentence, tool.flag.level === "warn" ? "warn" : "bad") : null,
      tool.cleaned.length ? notice(`Removed from its texts: ${tool.cleaned.join("; ")}`, "warn") : null,
      tool.examples.length ? element("div", {}, element("h3", { text: "Example queries" }), element("ul", { class: "dots small" }, tool.examples.map((text) => element("li", { class: "text", text })))) : null,
      element("h3", { text: "As the model sees it" }), element("pre", { tabindex: "0", text: tool.model_sees }),
      element("h3", { text: "As the server sent it" }), element("pre", { tabindex: "0", text: tool.server_sent })));
    title.focus();
  });
}

// Trust

function trustView(main) {
  const list = element("div", { class: "stack" }, muted("Loading…"));
  const detail = element("div", { class: "stack" });
  append(main, [viewHead("Trust", "Definitions that wait for an approval. Read one, then approve it or remove its server."),
    element("div", { class: "split" }, list, detail)]);
  let chosen = null;

  function overviewOf(answer) {
    const waiting = answer.quarantined.map((tool) => element("li", {},
      element("button", { class: "talk", "data-tool": tool.id, "aria-pressed": String(tool.id === chosen), onclick: () => review(tool.id) },
        element("span", { class: "text" }, toolId(tool.id)),
        element("span", {}, pill(tool.code.replaceAll("_", " "), "bad")))));
    const warned = answer.warned.map((tool) => element("li", {},
      element("button", { class: "plain", onclick: () => review(tool.id) }, toolId(tool.id)),
      tool.reasons.slice(0, 2).map((text) => element("div", { class: "muted small text", text }))));
    const looks = answer.needs_look.map((tool) => element("li", {},
      element("button", { class: "plain", onclick: () => review(tool.id) }, toolId(tool.id)),
      tool.reasons.map((text) => element("div", { class: "muted small text", text }))));
    replaceContent(list,
      waiting.length ? card(element("h2", { text: `${counted(waiting.length, "definition")} quarantined` }), element("ul", {}, waiting))
        : emptyNotice("Nothing waits", "No definition is quarantined: none changed, and the scan found no hidden instruction."),
      warned.length ? card(element("h2", { text: `Offered with a warning: ${number(answer.warnings)}` }), element("ul", { class: "list small" }, warned)) : null,
      looks.length ? card(element("h2", { text: `Needs a look: ${number(answer.looks)}` }),
        muted("Offered. They name what an attack needs; most are honest. The scan misses most new attacks, so read these once."),
        element("ul", { class: "list small" }, looks)) : null,
      element("p", { class: "muted small text" }, answer.pins ? `Pins: ${answer.pins}, ${counted(answer.pinned, "definition")}${answer.new ? `, ${number(answer.new)} without a pin` : ""}` : "No file of pins: start with --pins FILE to approve definitions."));
  }

  function review(id) {
    chosen = id;
    for (const button of list.querySelectorAll(".talk")) button.setAttribute("aria-pressed", String(button.dataset.tool === id));
    load(detail, async () => {
      const tool = await request("review", { id });
      const title = element("h2", { tabindex: "-1" }, toolId(tool.id));
      const marked = tool.fields.filter((field) => field.sentences.some((sentence) => sentence.codes.length));
      const approve = element("button", { class: "primary", text: "Approve this definition", disabled: !tool.can_approve });
      approve.addEventListener("click", async () => {
        approve.disabled = true;
        try {
          overviewOf(await write("approve", { tool: tool.id, fingerprint: tool.fingerprint, pinned: tool.pinned }));
          replaceContent(detail, notice(`${tool.id} is approved as you read it. It is offered from the next request on.`, "good"));
        } catch (error) {
          showStatus(error.message, "bad");
          approve.disabled = false;
        }
      });
      replaceContent(detail, card(title,
        tool.flag ? notice(tool.flag.sentence, tool.flag.level === "warn" ? "warn" : "bad") : tool.reason ? notice(tool.reason, "bad") : null,
        tool.change ? difference(tool.change) : null,
        marked.length ? [element("h3", { text: "What the scan marked" }), marked.map((field) => element("div", {},
          element("p", { class: "muted small mono text", text: field.where }),
          element("p", { class: "text" }, field.sentences.map((sentence) => [
            sentence.codes.length ? [element("mark", { text: sentence.text }), " ", sentence.codes.map((code) => pill(code.replaceAll("_", " "), "bad"))] : sentence.text, " "]))))] : null,
        element("details", { open: !marked.length && !tool.change }, element("summary", { text: "The whole definition" }), element("pre", { tabindex: "0", text: tool.definition })),
        tool.reason || tool.flag ? element("div", { class: "row" }, approve, muted(tool.can_approve ? "Only exactly this definition; a later change waits again." : "Start with --pins FILE to approve.")) : null));
      title.focus();
    });
  }

  load(list, async () => {
    const answer = await request("trust");
    overviewOf(answer);
    if (answer.quarantined.length) replaceContent(detail, emptyNotice("Choose a definition", "The marked sentences, and the difference to what was accepted, appear here."));
  });
}

function difference(change) {
  return element("div", { class: "stack" }, element("h3", { text: `Changed from ${change.pinned.slice(0, 12)} to ${change.now.slice(0, 12)}` }), change.advice ? notice(change.advice, "warn") : null,
    change.parts.map((part) => element("div", {},
      element("p", { class: "muted small mono text", text: `${part.part} (${part.kind})` }),
      element("div", { class: "sides" }, element("div", { class: "title", text: "accepted" }), element("div", { class: "title", text: "now" }),
        part.lines.flatMap((line) => {
          const same = line.before === line.now;
          return [element("div", { class: same ? "text" : line.before === null ? "" : "removed text", text: line.before || "" }),
            element("div", { class: same ? "text" : line.now === null ? "" : "added text", text: line.now || "" })];
        })))));
}

// Conversations

function conversationsView(main, shownVisit) {
  const missed = element("div", {});
  const talks = element("div", {});
  const title = element("h2", { text: "All events" });
  const cost = element("div", { class: "stack" });
  const picture = element("div", {});
  const space = element("div", { class: "space", role: "list" });
  const timeline = element("div", { class: "timeline", tabindex: "0", role: "region", "aria-label": "Timeline of events" }, space);
  const follow = element("input", { type: "checkbox", checked: true });
  append(main, [viewHead("Conversations", "What agents searched for, were offered and called. New events appear while a gateway writes them."),
    element("div", { class: "split" }, talks, element("div", { class: "stack" },
      element("div", { class: "spread" }, title, element("label", { class: "check" }, follow, "Follow new events")), cost, timeline)), missed]);
  const damaged = element("div", {});
  append(main, [damaged]);
  const lines = [];
  let shownLines = lines;
  let session = null;
  let next = 0;
  let drawnState = "";

  function draw() {
    const first = Math.max(0, Math.floor(timeline.scrollTop / ROW_HEIGHT) - 8);
    const last = Math.min(shownLines.length, Math.ceil((timeline.scrollTop + timeline.clientHeight) / ROW_HEIGHT) + 8);
    const state = `${first} ${last} ${shownLines.length} ${session}`;
    if (state === drawnState) return;
    drawnState = state;
    space.style.height = `${shownLines.length * ROW_HEIGHT}px`;
    replaceContent(space, shownLines.slice(first, last).map((line, place) => eventRow(line, first + place)));
  }

  function eventRow(line, place) {
    const row = element("div", { class: "event", role: "listitem", "aria-setsize": shownLines.length, "aria-posinset": place + 1 },
      element("time", { text: clock(line.at) }), element("span", { class: `dot ${line.tone}`, "aria-hidden": "true" }),
      element("div", { class: "what" }, element("span", { class: "text", text: line.title.slice(0, 300), title: line.title.slice(0, 1000) }), element("span", { class: "muted small text", text: line.detail.slice(0, 300), title: line.detail.slice(0, 1000) })),
      element("span", { class: "number muted small", text: [line.tokens === null ? "" : counted(line.tokens, "token"), line.ms === null ? "" : ms(line.ms)].filter(Boolean).join(" · ") }));
    row.style.top = `${place * ROW_HEIGHT}px`;
    return row;
  }

  function choose(talk) {
    session = talk ? talk.session : null;
    shownLines = talk ? lines.filter((line) => line.session === session) : lines;
    title.textContent = talk ? `Conversation ${talk.session.slice(0, 60)}` : "All events";
    replaceContent(cost, talk && talk.defined ? costOf(talk) : null, talk ? picture : null);
    if (talk) load(picture, async () => drawPicture(await request("steps", { session })));
    for (const button of talks.querySelectorAll(".talk")) button.setAttribute("aria-pressed", String(button.dataset.session === (session || "")));
    timeline.scrollTop = 0;
    drawFollowing();
  }

  // Offered, called, refused: a line for each search, a mark at each tool that was called.
  function drawPicture(steps) {
    const marks = { good: "called", warn: "sent back", bad: "refused or failed" };
    const chip = (id, calls) => element("li", { class: `chip ${calls.map((call) => call.tone).join(" ")}`, title: calls.map((call) => call.text).join("\n") },
      toolId(id), calls.length ? element("span", { class: "small", text: ` ${[...new Set(calls.map((call) => marks[call.tone]))].join(", ")}` }) : null);
    const rows = steps.map((step) => {
      const others = step.calls.map((call) => call.tool).filter((tool) => !step.offered.includes(tool));
      return element("li", { class: "stack step" }, element("strong", { class: "small text", text: step.query || "a search" }),
        step.offered.length || others.length ? element("ul", { class: "row chips" }, [...step.offered, ...new Set(others)].map((id) => chip(id, step.calls.filter((call) => call.tool === id)))) : muted("nothing was offered"));
    });
    replaceContent(picture, steps.length ? card(element("h2", { text: "Offered, called, refused" }), box("Offered, called, refused", element("ol", { class: "list" }, rows))) : null);
  }

  function drawFollowing() {
    draw();
    if (follow.checked) timeline.scrollTop = shownLines.length * ROW_HEIGHT;
    draw();
  }

  function costOf(talk) {
    return card(element("div", { class: "spread" }, element("strong", { text: `${number(talk.sent)} tokens sent` }), muted(`of ${number(talk.defined)} that all definitions take`)),
      element("span", { class: "bar big", "aria-hidden": "true" }, element("span", { share: Math.min(1, talk.sent / talk.defined) })),
      element("div", { class: "spread" }, muted("Tokens about tools that the model has read, turn by turn"), element("div", { class: "legend" }, element("span", { class: "searches", text: "sent" }), element("span", { class: "all", text: "all definitions" }))),
      turnChart(talk.turns, Math.max(280, timeline.clientWidth - 40)));
  }

  function talkList(answer) {
    const buttons = answer.conversations.slice(0, 200).map((talk) => element("li", {},
      element("button", { class: "talk", "data-session": talk.session, "aria-pressed": String(talk.session === session), onclick: () => choose(talk) },
        element("span", { class: "spread" }, element("strong", { class: "text", text: talk.client || talk.session.slice(0, 12) }), element("span", { class: "muted small", text: moment(talk.last) })),
        element("span", { class: "row" }, muted(`${counted(talk.searches, "search")}, ${counted(talk.calls, "call")}`),
          talk.failed ? pill(`${talk.failed} failed`, "bad") : null, talk.misses ? pill(`${talk.misses} missed`, "warn") : null, talk.refused ? pill(`${talk.refused} refused`, "warn") : null))));
    replaceContent(talks, card(element("h2", { text: `${counted(answer.conversations.length, "conversation")}` }),
      box("Conversations", element("ul", {}, element("li", {}, element("button", { class: "talk", "data-session": "", "aria-pressed": String(session === null), onclick: () => choose(null) }, element("strong", { text: "All events" }))), buttons))));
    const rows = answer.missed.map((search) => element("tr", {},
      cell(search.query ? element("span", { class: "text", text: search.query.slice(0, 300) }) : element("span", { class: "muted mono", text: `query ${search.hash.slice(0, 12)}` })),
      numberCell(number(search.count)), cell(search.found.length ? element("div", { class: "row" }, search.found.map(toolId)) : muted("nothing")), element("td", { class: "wide" }, element("span", { class: "muted small", text: moment(search.at) })),
      cell(search.query ? element("button", { class: "small", text: "Find its tool", "aria-label": `Find the tool for: ${search.query.slice(0, 100)}`, onclick: () => { searchInput.query = search.query; searchInput.tool = ""; location.hash = "search"; } }) : null)));
    replaceContent(missed, rows.length ? card(element("div", {}, element("h2", { text: "Searches that led to no call" }),
      element("p", { class: "muted small", text: `What to enrich next: find the tool that was meant, and add the query as an example. ${answer.missed.some((search) => !search.query) ? "Queries without a text were recorded as hashes: see the setting event_content." : ""}` })),
      table([{ title: "query" }, { title: "times", number: true }, { title: "offered" }, { title: "last", wide: true }, { title: "" }], rows.slice(0, 12), "Searches that led to no call")) : null);
  }

  async function poll() {
    const answer = await request("events", { start: next });
    const fresh = answer.lines.length > 0 || next === 0;
    lines.push(...answer.lines);
    next = answer.next;
    replaceContent(damaged, answer.damaged ? notice(`${counted(answer.damaged, "line")} of ${answer.file || "the events"} could not be read.`, "warn") : null);
    if (answer.lines.length && answer.next < answer.end) { await new Promise((done) => setTimeout(done)); return poll(); }
    if (!fresh) return undefined;
    if (!lines.length) {
      replaceContent(main, viewHead("Conversations", "What agents searched for, were offered and called."),
        emptyNotice("No events yet", "Name a file in the gateway's settings, ", element("code", { text: '"events": "events.jsonl"' }), ", or start with ", element("code", { text: "--events FILE" }), ". New events appear here by themselves."));
    } else if (!space.isConnected) {
      show();
      return undefined;
    }
    if (session !== null) shownLines = lines.filter((line) => line.session === session);
    if (lines.length) talkList(await request("conversations"));
    if (session !== null) drawPicture(await request("steps", { session }));
    drawFollowing();
    return undefined;
  }

  timeline.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
  let timer = 0;
  const again = async () => {
    await load(missed, poll);
    if (shownVisit === visitNumber && token) timer = setTimeout(again, POLL_MS);
  };
  leaveView = () => clearTimeout(timer);
  again();
}

// Overview

function overviewView(main) {
  const place = element("div", { class: "stack" }, muted("Counting…"));
  append(main, [viewHead("Overview", "Is it up, is it used, and what does it save?"), place]);
  load(place, refill);

  async function refill() {
    const answer = await request("overview");
    const stats = answer.stats;
    const tile = (name, value, more) => element("div", { class: "card tile" }, element("span", { class: "muted small", text: name }), element("strong", { text: value }), more instanceof Node ? more : muted(more));
    const share = stats.tokens.definitions ? `${Math.round(100 * stats.tokens.saved / stats.tokens.definitions)} % of ${brief(stats.tokens.definitions)}` : "no events yet";
    replaceContent(place,
      element("div", { class: "tiles" },
        tile("Servers", number(answer.servers.length), serverSummary(answer)),
        tile("Tools", number(answer.tools), answer.quarantined ? trustLink(`${number(answer.quarantined)} quarantined`, "bad") : "none quarantined"),
        tile("All definitions", number(answer.tokens), "tokens, in every turn"),
        tile("Tokens saved", brief(stats.tokens.saved), share),
        tile("Searches", number(stats.searches.total), `${number(stats.searches.misses)} led to no call`),
        tile("Search, p95", ms(stats.searches.p95_ms), `p50 ${ms(stats.searches.p50_ms)}`)),
      configNotices(answer),
      answer.encoded < 1 ? notice(`The index is being built: ${Math.round(100 * answer.encoded)} % encoded.`, "warn") : null,
      answer.hours.length ? card(element("div", { class: "spread" }, element("h2", { text: "Searches and calls an hour" }),
        element("div", { class: "legend" }, element("span", { class: "searches", text: "searches" }), element("span", { text: "calls" }))), hourChart(answer.hours, Math.max(280, place.clientWidth - 40)))
        : emptyNotice("No events yet", "Searches, calls and latencies appear once a gateway records events: ", element("code", { text: '"events": "events.jsonl"' }), "."),
      card(element("h2", { text: "Servers" }), serverTable(answer, refill)));
  }
}

function serverSummary(answer) {
  const count = (...states) => answer.servers.filter((server) => states.includes(server.state)).length;
  const failed = count("failed", "hangs", "not usable"), logins = count("awaiting consent");
  if (!failed && !logins) return answer.states_from || !answer.note ? "none failed" : "no gateway answers";
  return element("a", { class: `pill ${failed ? "bad" : "warn"}`, href: "#catalog", text: [failed ? `${failed} failed` : "", logins ? `${logins} want${logins === 1 ? "s" : ""} a login` : ""].filter(Boolean).join(", ") });
}

function serverTable(answer, redraw) {
  const rows = answer.servers.map((server) => {
    const stats = answer.stats.servers[server.name] || {};
    return [element("tr", {}, cell(element("strong", { class: "text" }, breakable(server.name || "no server"))),
      cell(stateOf(server)), numberCell(number(server.tools)), wideCell(number(server.tokens)), numberCell(number(stats.calls)), numberCell(number(stats.failed_calls)), wideCell(ms(stats.p50_ms)), wideCell(ms(stats.p95_ms))),
    server.problems.length || server.repair ? troubleRow(server, 8, redraw) : null];
  });
  const columns = ["tools", "tokens", "calls", "no answer", "p50", "p95"].map((title) => ({ title, number: true, wide: ["tokens", "p50", "p95"].includes(title) }));
  return table([{ title: "server" }, { title: "state" }, ...columns], rows, "Servers");
}

function turnChart(turns, width) {
  const height = 110, floor = 96, largest = Math.max(1, ...turns.map((turn) => Math.max(turn.tokens, turn.definitions)));
  const last = turns[turns.length - 1] || { tokens: 0, definitions: 0 };
  const chart = svgElement("svg", { class: "chart", width, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${counted(turns.length, "turn")}; in the last one ${number(last.tokens)} tokens were sent, and all definitions take ${number(last.definitions)}` });
  chart.append(svgElement("line", { x1: 52, x2: width, y1: floor, y2: floor }), svgElement("text", { x: 46, y: 16, "text-anchor": "end" }, brief(largest)), svgElement("text", { x: 46, y: floor, "text-anchor": "end" }, "0"));
  const step = (width - 56) / Math.max(turns.length, 8);
  const tall = (tokens) => (floor - 10) * tokens / largest;
  turns.forEach((turn, place) => {
    const left = 56 + place * step;
    chart.append(svgElement("rect", { class: "searches", x: left, y: floor - tall(turn.tokens), width: step * 0.7, height: tall(turn.tokens), rx: 2 }),
      svgElement("line", { class: "all", x1: left - step * 0.15, x2: left + step * 0.85, y1: floor - tall(turn.definitions), y2: floor - tall(turn.definitions) }));
  });
  return chart;
}

function hourChart(hours, width) {
  const height = 150, floor = 124, largest = Math.max(1, ...hours.map((hour) => Math.max(hour.searches, hour.calls)));
  const step = (width - 40) / Math.max(hours.length, 6);
  const chart = svgElement("svg", { class: "chart", width, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Searches and calls an hour, at most ${largest}` });
  chart.append(svgElement("line", { x1: 36, x2: width, y1: floor, y2: floor }), svgElement("text", { x: 30, y: 20, "text-anchor": "end" }, number(largest)), svgElement("text", { x: 30, y: floor, "text-anchor": "end" }, "0"));
  const wide = Math.min(22, step / 2 - 1);
  hours.forEach((hour, place) => {
    const left = 40 + place * step;
    ["searches", "calls"].forEach((kind, side) => {
      const tall = (floor - 12) * hour[kind] / largest;
      chart.append(svgElement("rect", { class: kind, x: left + side * (wide + 1), y: floor - tall, width: wide, height: tall, rx: 2 }));
    });
    if (place % Math.ceil(44 / step) === 0) chart.append(svgElement("text", { x: left, y: floor + 17 }, `${hour.hour.slice(11, 13)}:00`));
  });
  return chart;
}

window.addEventListener("hashchange", () => {
  const before = token;
  token = takeToken();
  if (token !== before) begin();
  else show();
});
begin();
show();
