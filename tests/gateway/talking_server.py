"""A real MCP server for tests that says more than results: resources, prompts, logs, questions.

Usage: `talking_server.py NAME [older|newer] [plain] [notes=FILE] [http PORT]`.

`older` speaks the handshake protocol only; `plain` takes no subscriptions and completes nothing.
`notes` is a file to which connections, cancelled calls and refused questions are appended.
"""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path

import anyio
import mcp.types as types
import uvicorn
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp.shared.message import ServerMessageMetadata
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

NAME = sys.argv[1] if len(sys.argv) > 1 else "talking"
PICTURE = bytes(range(256)) * 3
MEMOS = [f"memo://note/{number}" for number in range(5)]
#: Name of a caller to the end of its call of `hold`.
released: dict[str, anyio.Event] = {}
NOTES = next((Path(word[6:]) for word in sys.argv if word.startswith("notes=")), None)
#: Address to the sessions that subscribed to it, in the older protocol.
followed: dict[str, list] = {}
#: What the client answered to the question for its folders at the start.
first_folders: list[str] = []
bus = InMemorySubscriptionBus()


def tool(name, **properties):
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
    }
    return types.Tool(name=name, description=f"{name} for tests of {NAME}", input_schema=schema)


TOOLS = [
    tool("ask_user", who="string"),
    tool("ask_model", who="string"),
    tool("ask_folders"),
    tool("say_everything", who="string", rounds="integer"),
    tool("wait_long", who="string"),
    tool("ask_once_cancelled", who="string", kind="string"),
    tool("hold", who="string"),
    tool("release", who="string"),
    tool("give_link"),
    tool("add_numbers", first="integer", second="integer"),
    tool("say_later", text="string"),
    tool("show_meta"),
    tool("change", uri="string"),
    tool("who_follows"),
    tool("end_process"),
    tool("need_address"),
    tool("first_folders"),
]


def text(value):
    return types.CallToolResult(content=[types.TextContent(type="text", text=str(value))])


async def list_tools(context, params):
    return types.ListToolsResult(tools=TOOLS)


async def list_resources(context, params):
    """Two entries a page."""
    start = int(params.cursor or 0)
    rows = [types.Resource(uri=uri, name=uri.rpartition("/")[2]) for uri in MEMOS]
    rows.append(types.Resource(uri="memo://picture", name="picture", mime_type="image/png"))
    more = str(start + 2) if start + 2 < len(rows) else None
    return types.ListResourcesResult(resources=rows[start : start + 2], next_cursor=more)


async def list_templates(context, params):
    row = types.ResourceTemplate(uri_template="memo://user/{name}", name="user")
    return types.ListResourceTemplatesResult(resource_templates=[row])


async def read_resource(context, params):
    uri = params.uri
    if uri == "memo://picture":
        blob = base64.b64encode(PICTURE).decode()
        part = types.BlobResourceContents(uri=uri, blob=blob, mime_type="image/png")
    elif uri.startswith(("memo://note/", "memo://user/", "memo://hidden/")):
        part = types.TextResourceContents(uri=uri, text=f"{NAME}: {uri}")
    else:
        raise types_error(f"no resource {uri}")
    return types.ReadResourceResult(contents=[part])


def types_error(message):
    return MCPError(types.INVALID_PARAMS, message, {"from": NAME})


async def list_prompts(context, params):
    argument = types.PromptArgument(name="subject", required=True)
    rows = [
        types.Prompt(name="review", arguments=[argument]),
        types.Prompt(name="a name/with: everything" + "x" * 80),
    ]
    return types.ListPromptsResult(prompts=rows)


async def get_prompt(context, params):
    said = f"{NAME} {params.name} {(params.arguments or {}).get('subject')}"
    content = types.TextContent(type="text", text=said)
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])


async def complete(context, params):
    ref = params.ref
    what = ref.name if isinstance(ref, types.PromptReference) else ref.uri
    before = (params.context.arguments if params.context else None) or {}
    values = [f"{NAME} {what} {params.argument.value}", *before.values()]
    return types.CompleteResult(completion=types.Completion(values=values))


def form(who):
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    return types.ElicitRequestFormParams(message=f"Question for {who}", requested_schema=schema)


def prompt(who):
    content = types.TextContent(type="text", text=f"Question for {who}")
    message = types.SamplingMessage(role="user", content=content)
    return types.CreateMessageRequestParams(messages=[message], max_tokens=10)


async def asked(context, params, request, result_type):
    """The client's answer, or the result that asks for it."""
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        related = ServerMessageMetadata(related_request_id=context.request_id)
        return await context.session.send_request(request, result_type, metadata=related)
    if params.input_responses:
        assert params.request_state == f"state of {NAME}"
        return params.input_responses["mine"]
    return types.InputRequiredResult(
        input_requests={"mine": request}, request_state=f"state of {NAME}"
    )


async def log(context, words):
    level = (context.meta or {}).get(types.LOG_LEVEL_META_KEY)
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS and level is None:
        return
    params = types.LoggingMessageNotificationParams(level="info", data=words)
    await context.session.send_notification(
        types.LoggingMessageNotification(params=params), related_request_id=context.request_id
    )


async def call_tool(context, params):
    given = params.arguments or {}
    who = given.get("who")
    if params.name == "ask_user":
        answer = await asked(
            context, params, types.ElicitRequest(params=form(who)), types.ElicitResult
        )
        if isinstance(answer, types.InputRequiredResult):
            return answer
        return text(f"{answer.action} {(answer.content or {}).get('answer')}")
    if params.name == "ask_model":
        request = types.CreateMessageRequest(params=prompt(who))
        answer = await asked(context, params, request, types.CreateMessageResult)
        if isinstance(answer, types.InputRequiredResult):
            return answer
        return text(answer.content.text)
    if params.name == "ask_folders":
        answer = await asked(context, params, types.ListRootsRequest(), types.ListRootsResult)
        if isinstance(answer, types.InputRequiredResult):
            return answer
        return text([str(root.uri) for root in answer.roots])
    if params.name == "say_everything":
        if not params.input_responses:
            for number in range(given["rounds"]):
                words = f"{who} {number}"
                await log(context, words)
                await context.session.report_progress(
                    number + 1, given["rounds"], f"{who} {number}"
                )
                await anyio.sleep(0.01)
        answer = await asked(
            context, params, types.ElicitRequest(params=form(who)), types.ElicitResult
        )
        if isinstance(answer, types.InputRequiredResult):
            return answer
        return text((answer.content or {}).get("answer"))
    if params.name == "wait_long":
        try:
            await context.session.report_progress(1, 2, "started")
            await anyio.sleep(60)
        except anyio.get_cancelled_exc_class():
            note(f"cancelled: {who}")
            raise
    if params.name == "ask_once_cancelled":
        try:
            await context.session.report_progress(1, 2, "started")
            await anyio.sleep(60)
        except anyio.get_cancelled_exc_class():
            outside.start_soon(ask_late, context.session, who, given.get("kind"))
            raise
    if params.name == "hold":
        released.pop(who, None)
        event = released[who] = anyio.Event()
        await context.session.report_progress(1, 2, "started")
        await event.wait()
        return text(f"held for {who}")
    if params.name == "release":
        released[who].set()
        return text("released")
    if params.name == "give_link":
        link = types.ResourceLink(uri="memo://hidden/1", name="hidden")
        held = types.TextResourceContents(uri="memo://hidden/2", text="held")
        return types.CallToolResult(
            content=[link, types.EmbeddedResource(type="resource", resource=held)]
        )
    if params.name == "add_numbers":
        return text(given["first"] + given["second"])
    if params.name == "say_later":
        outside.start_soon(say_later, context, given["text"])
        return text("soon")
    if params.name == "change":
        await bus.publish(ResourceUpdated(uri=given["uri"]))
        for session in followed.get(given["uri"], []):
            await session.send_resource_updated(given["uri"])
        return text("changed")
    if params.name == "need_address":
        raise UrlElicitationRequiredError(
            [
                types.ElicitRequestURLParams(
                    message="Log in", url="https://a.test", elicitation_id="1"
                )
            ]
        )
    if params.name == "first_folders":
        return text(first_folders)
    if params.name == "end_process":
        os._exit(3)
    if params.name == "who_follows":
        return text(sorted(uri for uri, sessions in followed.items() if sessions))
    if params.name == "show_meta":
        return text(sorted(context.meta or {}))
    raise types_error(f"no tool {params.name}")


def note(line):
    if NOTES is not None:
        with NOTES.open("a") as file:
            file.write(line + "\n")


async def ask_late(session, who, kind):
    """Log and ask after the call has ended. These messages name no call."""
    questions = {
        "sampling": (types.CreateMessageRequest(params=prompt(who)), types.CreateMessageResult),
        "roots": (types.ListRootsRequest(), types.ListRootsResult),
    }
    form_question = (types.ElicitRequest(params=form(who)), types.ElicitResult)
    question, answer_type = questions.get(kind, form_question)
    params = types.LoggingMessageNotificationParams(level="info", data=f"late {who}")
    await session.send_notification(types.LoggingMessageNotification(params=params))
    try:
        await session.send_request(question, answer_type)
        note(f"answered: {who}")
    except MCPError as error:
        note(f"refused: {error.message}")


async def say_later(context, words):
    await anyio.sleep(0.3)
    params = types.LoggingMessageNotificationParams(level="warning", data=words)
    await context.session.send_notification(types.LoggingMessageNotification(params=params))


async def subscribe(context, params):
    if not params.uri.startswith("memo://"):
        raise types_error("nobody can follow this")
    followed.setdefault(params.uri, []).append(context.session)
    return types.EmptyResult()


async def unsubscribe(context, params):
    followed.pop(params.uri, None)
    return types.EmptyResult()


async def initialized(context, params):
    """Ask for the client's folders at once, as some servers do."""
    note("connected")

    async def ask():
        try:
            found = await context.session.send_request(
                types.ListRootsRequest(), types.ListRootsResult
            )
            first_folders.extend(str(root.uri) for root in found.roots)
        except MCPError as error:
            first_folders.append(error.message)

    outside.start_soon(ask)


async def set_level(context, params):
    return types.EmptyResult()


server = Server(
    NAME,
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read_resource,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
)
server.add_notification_handler("notifications/initialized", types.NotificationParams, initialized)
if "plain" not in sys.argv:
    server.add_request_handler("completion/complete", types.CompleteRequestParams, complete)
    server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, subscribe)
    server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, unsubscribe)
    listen = ListenHandler(bus)
    server.add_request_handler(
        "subscriptions/listen", types.SubscriptionsListenRequestParams, listen
    )
server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)


async def main():
    global outside
    async with anyio.create_task_group() as outside:
        if "http" in sys.argv:
            await serve_http()
        else:
            async with stdio_server() as (read, write):
                if "older" in sys.argv:
                    await serve_loop(server, read, write, lifespan_state={})
                else:
                    await server.run(read, write, server.create_initialization_options())
        outside.cancel_scope.cancel()


async def serve_http():
    """Serve at the port that is the last argument."""
    app = server.streamable_http_app()

    async def older_only(scope, receive, send):
        headers = dict(scope.get("headers") or ())
        if "older" in sys.argv and headers.get(b"mcp-protocol-version", b"") > b"2026":
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await app(scope, receive, send)

    config = uvicorn.Config(older_only, port=int(sys.argv[-1]), log_level="warning")
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    anyio.run(main)
