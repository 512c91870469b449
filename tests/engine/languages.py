"""Tools described in many languages, with requests that each of them alone answers."""

from __future__ import annotations

from shortlist import Tool

TOOLS = [
    Tool("create_issue", "github", "Open a new issue in a repository"),
    Tool("getUserById", "github", "Read one account"),
    Tool("list_pull_requests", "github", "List the pull requests of a repository"),
    Tool("HTTPServer2", "net", "Start a local web server"),
    Tool("oauth2", "net", "Authorise an application"),
    Tool("convert-image-format", "media", "Turn a PNG into a JPEG"),
    Tool("calendar.events.insert", "google", "Put an appointment into a diary"),
    Tool("menu_cafe", "food", "Liste des plats du café à Orléans"),
    Tool("wenti", "zh", "创建一个新的问题并分配给用户"),
    Tool("tenki", "ja", "東京の天気予報を取得する"),
    Tool("nalssi", "ko", "서울의 날씨를 알려줍니다"),
    Tool("kon", "th", "ค้นหาไฟล์ในโฟลเดอร์"),
    Tool("khoj", "hi", "फ़ाइल खोजें और सूची दिखाएं"),
    Tool("bahth", "ar", "البحث عن الملفات في المجلد"),
    Tool("zadacha", "ru", "Создать новую задачу в проекте"),
    Tool("paichnidi", "el", "Αναζήτηση παιχνιδιών"),
    Tool("rocket", "fun", "Launch 🚀 with confetti"),
]

REQUESTS = {
    "get user by id": "github/getUserById",
    "pull requests": "github/list_pull_requests",
    "http server": "net/HTTPServer2",
    "oauth 2": "net/oauth2",
    "image format": "media/convert-image-format",
    "insert events into the calendar": "google/calendar.events.insert",
    "cafe orleans": "food/menu_cafe",
    "CAFÉ": "food/menu_cafe",
    "新的问题": "zh/wenti",
    "天気予報": "ja/tenki",
    "서울 날씨": "ko/nalssi",
    "หาไฟล์": "th/kon",
    "सूची": "hi/khoj",
    "الملفات": "ar/bahth",
    "новую задачу": "ru/zadacha",
    "ПРОЕКТЕ": "ru/zadacha",
    "παιχνιδιων": "el/paichnidi",
    "launch 🚀": "fun/rocket",
}
