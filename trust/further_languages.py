"""The chief words of the concepts in some thirty languages more.

What an order must say is put together from what few words express in any language: not, to tell,
to ignore, instructions, the user, other, tool. Either may come first. Stems stand for all forms.
"""

from __future__ import annotations

from typing import Final

_NOT = (
    r"(?:\b(?:nicht|nichts|kein\w{0,9}|ohne|no|sin|nada|non|senza|ne|n'|pas|sans|não|nao|sem|"
    r"dispensa|"
    r"niet|niets|zonder|geen|nie|nic|bez|nu|fără|ikke|ikkje|intet|uden|uten|inte|inget|utan|älä|"
    r"älkää|ei|ilman|ära|ilma|nem|nélkül|ekki|án|neniam|nenion|sen|sense|cap|không|đừng|chớ|tidak|"
    r"tak|jangan|tanpa|tiada|huwag|hindi|nang walang|usi\w{0,9}|bila|haitaji|nebe|be|entfällt|"
    r"nerei\w{1,9}|"
    r"netřeba|netreba)\b|"
    r"\bне\b|\bбез\b|\bні\b|\bникогда\b|μην?\b|\bδεν\b|χωρίς|دون|بدون|\bلا\b|\bولا\b|\bلن\b|نہ\b|"
    r"\bנ?לא\b|\bאל\b|בלי|ללא|नहीं|न |मत|बिना|না\b|না[।,. ]|ছাড়া|আড়ালে|อย่า|ไม่|โดยไม่|"
    r"不|勿|无需|无须|無需|別|别|ない|なく|ず(?:に)?|ません|지 ?마|지 ?않|없이|말고|வேண்டாம்|కూడదు)"
)
_TELL = (
    r"(?:\b(?:sag(?:en?|t)?\b|erwähn|mitteil|mitgeteilt|verrat|erzähl|rückfrage|hinweis|"
    r"(?:se )?(?:lo )?dig[aá]|decir|comentar|coment[ae]|avis[ae]|mencion|revel|cuente|"
    r"parle[rz]?\b|di(?:re|tes|s)\b|avert|préven|signal(?:er|ez)|apparaître|"
    r"dir(?:e|lo|glielo)\b|menzion|avvis|avvert|rivel|conte\b|contar|"
    r"vertel|zeg\b|zeggen|meld|vermeld|noem|mów|mówi|powiedz|wspom|powiad|ujawn|"
    r"říkej|říkat|zmiň|sděl|upozor|zatěž|oznam|povedz|spomín|spomen|spomin|reci|obavij|obvest|"
    r"spune|spui|mențion|anunț|mond|említ|szól|tájékoz|értesít|közöl|kerto|kerro|main(?:it|i\b)|"
    r"ilmoi|ütle|teavita|berätta|nämn|säg\b|säga|meddela|fortæl|nævn|oplys|fortell|nevn|"
    r"underrett|segja|nefna|diguis|dir-li|mencionis|diru|menci|informu|"
    r"nói|báo|đề cập|tiết lộ|beri ?tahu|memberi ?tahu|sebut|menyebut|kabar|memaklum|"
    r"sabihin|banggit|ipaalam|mwambi|kumwambi|kutaja|kumjulish|"
    r"sakyk|neminėk|saki\b|neminiet)|"
    r"\b(?:сообщ|говор|упомин|упомян|спомен|споме?н|помињ|помен|уведом|казв|кажи|расска|повідом|"
    r"згад|інформ|обавест|обавешт|разкри|ставить в изв)|\bинформир|"
    r"πεις|πείτε|αναφέρ|ενημερ|αποκαλ|تخبر|تذكر|إخبار|إعلام|تعلم|يعلم|تكشف|נגיד|תספר|תגיד|תזכיר|"
    r"לספר|ליידע|תודיע|ידיעת|نگو|بگو|اطلاع|ذکر|بتا|बता|सूचित|उल्लेख|ज़िक्र|জানা|উল্লেখ|বলো|"
    r"บอก|แจ้ง|กล่าวถึง|告知|告诉|告訴|通知|提及|提醒|知情|知らせ|伝え|言わ|教え|告げ|触れ|알리|"
    r"말하|언급|"
    r"통지|சொல்ல|చెప్ప)"
)
_GLUED = (  # where the verb itself says not to
    r"\b(?:neříkej\w{0,9}|nezmiň\w{0,9}|neinformuj\w{0,9}|nespomín\w{0,9}|nesakyk\w{0,9}|"
    r"neminėk\w{0,9}|nesaki\w{0,9}|"
    r"nemini\w{0,9}|kertomatta|mainitsematta|ilmoittamatta|söyleme\w{0,9}|bildirme\w{0,9}|"
    r"bahsetme\w{0,9}|"
    r"haber verme\w{0,9}|usimwambie\w{0,9}|usitaje\w{0,9})\b|省略此事|不提|نگو"
)
_USER = (
    r"(?:utilisateur|usuari[oa]?|usuário|utente|benutzer|nutzer|anwender|gebruiker|użytkownik|"
    r"uživatel|používateľ|користувач|пользовател|потребител|корисник|korisnik|uporabnik|"
    r"utilizator|felhasznál|käyttäj|kasutaja|användar|bruger|bruker|notand|χρήστη|مستخدم|משתמש|"
    r"کاربر|صارف|उपयोगकर्ता|ব্যবহারকারী|ผู้ใช้|người dùng|pengguna|gumagamit|mtumiaji|uzanto|"
    r"naudotoj|lietotāj|kullanıcı|ユーザ|利用者|사용자|用户|使用者)"
)
_INSTRUCTIONS = (
    r"(?:anweisung|regeln\b|instru[ckçț]|istruz|inštruk|указани|инструкц|упутств|інструкц|вказівк|"
    r"polecen|pokyn|navodil|uput|ohje|juhis|utasítás|οδηγί|تعليم|הוראות|دستور|ہدایات|निर्देश|"
    r"নির্দেশ|คำสั่ง|hướng dẫn|chỉ thị|chỉ dẫn|arahan|perintah|tagubilin|maagizo|nurodym|"
    r"norādījum|ordonoj|fyrirmæl|指示|命令|指令|提示|规则|지시|명령|talimat|வழிமுறை|సూచన)"
)
_IGNORE = (
    r"(?:ignorier|vergiss|missacht|\bignor|olvid|dimentic|oubli|esque[çc]|desconsider|игнорир|"
    r"забуд|забрав|занемар|пренебрег|ігнор|negeer|vergeet|zignoruj|pomiń|zapomnij|nedbej|"
    r"zapome|prezri|zanemari|glöm|glem|bortse|ohita|unohda|\beira|unusta|figyelmen kívül|felejt|"
    r"αγνό|αγνοή|ξέχ|تجاهل|انس |התעלם|נادیده|نادیده|نظر ?انداز|अनदेखा|नज़रअंदाज़|অগ্রাহ্য|"
    r"উপেক্ষা|เพิกเฉย|ไม่ต้องสนใจ|ละเว้น|bỏ qua|phớt lờ|abaikan|balewalain|puuza|nepaisyk|malatent|"
    r"無視|忘れ|무시|잊|忽略|无视|忽视|忘记|yok say|görmezden|புறக்கணி|విస్మరి)"
)
_OTHER = (
    r"(?:ander[en]?|andra|andre|inn(?:e|ych|ego|y|ymi)|jin(?:ý|é|ých|ým|ého)|in(?:ý|é|ých)|"
    r"drug|"
    r"alt(?:e|re|ra)|muu|muid|más|mās|altr[aeoi]|otr[ao]s?|outr[ao]s?|autres?|pozostał|"
    r"другой|друг|інш|остал|άλλ|أخرى|آخر|אחר|دیگر|دوسر|अन्य|दूसर|অন্য|อื่น|khác|"
    r"lain|iba|nyingine|kit|cit|alia|他の|ほかの|다른|其他|其它|diğer|başka|"
    r"restlichen|"
    r"übrigen|övriga|øvrige)"
)
_TOOL = (
    r"(?:werkzeug|tools?\b|herramient|ferrament|eine?s?\b|eina\b|strument|outils?\b|"
    r"gereedschap|hulpmiddel|narzędz|nástroj|orodj|alat|verktyg|værktøj|verktøy|työkalu|tööriist|"
    r"eszköz|instrument|инструмент|інструмент|алат|εργαλεί|أداة|أدوات|כלי|ابزار|ٹول|टूल|उपकरण|টুল|"
    r"เครื่องมือ|công cụ|kasangkapan|zana|įrank|rīk|ilo[jn]*\b|araç|araçlar|ツール|도구|工具)"
)
_OLD = (
    r"(?:veralte|unsicher|unzuverlässig|obsolet|desactualiz|inseguro|pericolos|dépass|obsolèt|"
    r"устарел|застар|ненадежн|небезопасн|verouderd|onveilig|przestarza|niebezpieczn|zastaral|"
    r"nebezpečn|föråldra|osäker|forælde|usikker|utdatert|vanhentun|elavult|megbízhatatlan|învechi|"
    r"ξεπερασμ|αναξιόπιστ|قديم|مهجور|מיושנ|منسوخ|पुरान|পুরানো|ล้าสมัย|lỗi thời|usang|"
    r"古い|非推奨|구식|过时|已弃用|不可靠|eski|güvensiz)"
)
_EVEN = (
    r"(?:selbst wenn|auch wenn|aunque|incluso si|même si|quand bien même|anche se|mesmo que|"
    r"ainda que|даже если|навіть якщо|дори ако|чак и ако|zelfs als|ook al|nawet (?:jeśli|gdy)|"
    r"i když|aj keď|čak i ako|chiar dacă|även om|selv om|selv hvis|vaikka|isegi kui|még ha|"
    r"akkor is|ακόμη? κι? αν|حتى (?:لو|إذا|وإن)|גם אם|אפילו אם|حتی اگر|भले ही|এমনকি|แม้|dù |"
    r"ngay cả|"
    r"meskipun|walaupun|kahit|hata kama|encara que|eĉ se|たとえ|더라도|即使|即便|哪怕|bile olsa)"
)
_ASK = (
    r"(?:(?:ohne|sin|sans|senza|sem|zonder|bez|uden|uten|utan|fără|sense|sen) (?:\w{1,9} ){0,2}?"
    r"(?:rückfrage|nachfrag|zu fragen|bestätig|zustimm|preguntar|confirm|demander|"
    r"chiedere|conferm|perguntar|te vragen|toestemming|bevestig|pyta|potwierdz|ptan|dotaz|potvrz|"
    r"spørge|spørre|bekræft|bekreft|fråga|bekräft|întreb|demanar)|"
    r"rückfrage\w{0,9}[^.!?\n]{0,30}entfällt|не спрашивая|без (?:подтвержд|запроса|питан|потврд|"
    r"потвърж|согласи)|kysymättä|vahvistamatta|megkérdez\w{1,9} nélkül|megerősítés nélkül|"
    r"küsimata|"
    r"χωρίς (?:να ρωτ|επιβεβαί|έγκρισ)|دون (?:أن )?(?:تسأل|سؤال|موافق|تأكيد|إذن)|"
    r"בלי (?:לשאול|אישור)|ללא אישור|بدون (?:پرس|تأیید|تایید|اجازه)|बिना (?:पूछे|पुष्टि|अनुमति)|"
    r"না জিজ্ঞ|"
    r"โดยไม่(?:ต้อง)?(?:ถาม|ขอ|ยืนยัน)|không cần (?:hỏi|xác nhận)|mà không hỏi|"
    r"tanpa (?:bertanya|konfirmasi|persetujuan|"
    r"izin)|nang hindi nagtatanong|確認(?:は不要|なし|せず|を求めず)|묻지|확인 없이|"
    r"(?:无需|无须|不必|不经|未经)(?:用户)?(?:确认|同意|询问|批准)|sormadan|onay (?:almadan|"
    r"istemeden))"
)
_NEAR = r"[^.!?。！？\n]{0,40}?"
_CLOSE = r"[^.!?。！？,;\n]{0,16}?"

FURTHER: Final[dict[str, str]] = {
    "hide": rf"{_NOT}{_NEAR}{_TELL}|{_TELL}{_NEAR}{_NOT}|{_GLUED}",
    "override": rf"{_IGNORE}{_NEAR}{_INSTRUCTIONS}|{_INSTRUCTIONS}{_NEAR}{_IGNORE}",
    "other_tools": rf"{_OTHER}{_CLOSE}{_TOOL}|{_TOOL}{_CLOSE}{_OTHER}",
    "belittle": rf"{_OTHER}{_NEAR}{_OLD}",
    "against_user": rf"{_EVEN}{_NEAR}{_USER}|{_USER}{_NEAR}{_EVEN}",
    "no_consent": _ASK,
    "context": (
        r"gespräch|unterhaltung|conversa|conversación|échanges|cronologia|rozmow|konwersac|"
        r"konverza|rozhovor|razgovor|pogovor|переписк|разговор|розмов|бесед|диалог|gesprek|"
        r"konversation|samtal|keskustel|vestlus|beszélget|convorbir|συνομιλ|محادث|שיח|گفتگو|"
        r"گفت ?وگو|گفتگو|बातचीत|वार्तालाप|কথোপকথন|สนทนา|hội thoại|trò chuyện|percakapan|obrolan|"
        r"perbualan|usapan|mazungumzo|pokalb|sarun|会話|対話|대화|对话|聊天|"
        r"(?:mensajes|mensagens|messaggi|messages) (?:anteriores|precedenti|précédents)|"
        r"(?:vorherigen|bisherigen) nachrichten|系统提示|システムプロンプト|시스템 프롬프트|"
        r"системн\w{1,9} (?:сообщ|подсказ|промпт|повідом)\w{0,9}|系统消息"
    ),
    "secret": (
        r"passwör|kennwör|kennwort|contraseny|clave secreta|palavra-passe|hasł[aoe]|hesl[aoe]|"
        r"hesly|"
        r"парол|лозин|wachtwoord|lösenord|adgangskode|kodeord|passord|salasan|jelsz[óa]|parool|"
        r"lykilorð|κωδικ|συνθηματ|كلم\w{1,9} (?:ال)?(?:مرور|سر)|بيانات الاعتماد|סיסמ|گذرواژه|"
        r"رمز عبور|پاس ?ورڈ|पासवर्ड|পাসওয়ার্ড|পাসওয়ার্ড|รหัสผ่าน|mật khẩu|kata ?(?:sandi|laluan)|"
        r"nenosiri|slaptažod|paroles?\b|gesl[ao]|lozink|zapork|pasvort|口令|凭据|암호|"
        r"கடவுச்சொல்|పాస్‌వర్డ్"
    ),
    "hand_over": (
        r"hinzufüg|anhäng|\bgehör(?:t|en) |\bfüge?\b|schreib|adjunt|coloc|\bpon(?:ga|er|"
        r"lo)?\b|añad|"
        r"aggiung|allega|metti|ajout|joign|mettez|\bappelez\b|anex|inclu[aiy]|incluya|"
        r"пошал|надішл|подай|подав|добав|додай|встав|вложи|запиш|przeka|wyśl|dołącz|wstaw|umieść|"
        r"přilož|vlož|pošl|předej|odošl|stuur|voeg|plaats|skicka|lägg|bifoga|\bsend\b|\blæg\b|"
        r"indsæt|"
        r"vedlegg|\blegg\b|lähet|liitä|lisää|saada|küld|csatol|tedd|trimite|adaug|στείλ|βάλ|"
        r"συμπερ|"
        r"πρόσθ|أرسل|ارسل|وأرسل|ضع|أدرج|مرر|שלח|הוסף|העבר|צרף|بفرست|ارسال|بگذار|بھیج|भेज|जोड़|डाल|"
        r"পাঠা|দাও|যোগ|ส่ง|ใส่|แนบ|gửi|thêm|chèn|đưa|kirim|sertakan|masukkan|lampirkan|hantar|"
        r"ipadala|ilagay|\btuma|weka|siųsk|įrašyk|nosūti|pievieno|sendu|metu|\bpass[ia]\b|"
        r"\benvi[ae]|"
        r"入れ|送|含め|첨부|포함|写入|填入|加入|粘贴"
    ),
    "read": (
        r"прочет|прочит|прочи|przeczyt|odczyt|přečt|načt|prečít|\blees\b|\bläs\b|\blæs\b|\blue\b|"
        r"\bloe\b|olvas|cite[șs]t|διάβασ|διαβάσ|اقرأ|קרא|بخوان|پڑھ|पढ़|পড়|อ่าน|đọc|\bbaca|basahin|"
        r"soma\b|skaityk|izlasi|\blegu\b|llegeix|阅读"
    ),
    "oblige": (
        r"\b(?:altijd|moet|zawsze|musi|należy|vždy|musí|uvijek|vedno|întotdeauna|trebuie|alltid|"
        r"altid|måste|skal|aina|täytyy|alati|mindig|kell|ĉiam|luôn|phải|selalu|harus|wajib|palagi|"
        r"daima|sempre|cal)\b|всегда|завжди|винаги|увек|πάντα|πρέπει|دائما|يجب|תמיד|חייב|"
        r"همیشه|باید|"
        r"ہمیشہ|हमेशा|সর্বদা|সবসময়|เสมอ|ต้อง"
    ),
    "trigger": (
        r"\b(?:voordat|voor|przed|před|pred|prije|înainte|innan|inden|før|ennen|enne|mielőtt|"
        r"előtt|"
        r"antaŭ|abans|trước|sebelum|bago|kabla|prieš|pirms)\b|преди|пре него|перш ніж|πριν|"
        r"قبل|לפני|پیش از|سے پہلے|से पहले|আগে|ก่อน"
    ),
    "agent": (
        r"asystent|assistent|asistent|помощник|помічник|помоћник|μοντέλο|βοηθ|مساعد|النموذج|עוזר|"
        r"המודל|دستیار|مدل|सहायक|মডেল|সহকারী|ผู้ช่วย|โมเดล|trợ lý|mô hình|asisten|asszisztens|"
        r"avustaj|tekoäly|模型|モデルは|모델"
    ),
    "slot": (
        r"\b(?:feld|champ|campo|camp|pole|poli|polje|veld|fält|felt|kenttä\w{0,9}|mező\w{0,9}|"
        r"câmp\w{0,9}|"
        r"kampo\w{0,9}|"
        r"kolom|medan|lahter\w{0,9}|lauk\w{0,9}|alan\w{0,9})\b|пол[ею]|поле|πεδίο|حقل|שדה|"
        r"فیلد|फ़ील्ड|फील्ड|ঘরে|"
        r"ฟิลด์|ช่อง|trường|字段|フィールド|欄|필드"
    ),
    "defend": (
        r"\b(?:erkenn|detect|détect|rileva|herken|wykry|detek|upptäck|opdag|oppdag|havait|"
        r"felismer|"
        r"észlel|mendeteksi|phát hiện)|обнаруж|распозна|виявля|открива|откри|ανιχνε|يكشف|كشف|מזהה|"
        r"تشخیص|पता लगा|শনাক্ত|ตรวจจับ|検出|检测|檢測|감지|탐지|tespit|algıla"
    ),
}
"""Concept to further words that express it, joined to those of `languages`."""
