"""A real HTTP API with an OpenAPI document, and some answers that a hostile one would give.

Arguments: the address of another host, and the port.
"""

from __future__ import annotations

import gzip
import sys

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

SECRET = "secret-token-12345"
requests_seen = []


async def echo(request: Request) -> Response:
    body = await request.body()
    return JSONResponse(
        {
            "method": request.method,
            "path": request.scope["raw_path"].decode(),
            "query": request.scope["query_string"].decode(),
            "headers": dict(request.headers),
            "body": body.decode("latin-1"),
        }
    )


async def invoices(request: Request) -> Response:
    if request.headers.get("authorization") != f"Bearer {SECRET}":
        return JSONResponse({"detail": "who are you?"}, 401)
    return JSONResponse([{"id": 7, "status": request.query_params.get("status")}])


async def elsewhere(request: Request) -> Response:
    return RedirectResponse(f"{sys.argv[1]}/v1/echo/stolen", 307)


async def moved(request: Request) -> Response:
    return RedirectResponse("/v1/echo/moved", 307, {"set-cookie": "who=ann; path=/"})


async def loop(request: Request) -> Response:
    return RedirectResponse("/v1/loop")


async def bomb(request: Request) -> Response:
    data = gzip.compress(bytes(200_000_000), 9)
    return Response(data, headers={"content-encoding": "gzip", "content-type": "application/json"})


async def bomb_twice(request: Request) -> Response:
    # Empty blocks of deflate: 300 MB between two codings, and nothing at the end.
    data = gzip.compress(b"\x00\x00\x00\xff\xff" * 60_000_000, 1)
    coding = {"content-encoding": "deflate, gzip"}
    return Response(data, headers={**coding, "content-type": "application/json"})


async def odd_charset(request: Request) -> Response:
    return Response(b"a-" + b"b9" * 1_000_000, media_type="text/plain; charset=punycode")


async def cut_emoji(request: Request) -> Response:
    return Response(rb'{"text": "cut \ud83d"}', media_type="application/json")


async def semicolons(request: Request) -> Response:
    # What follows the quotation mark is read again for each semicolon.
    content_type = "text/plain" + ';a="' + ";" * 60_000
    return Response("a text", headers={"content-type": content_type})


async def halves(request: Request) -> Response:
    return Response(b'{"text": "' + rb"\ud800" * 5_000_000 + b'"}', media_type="application/json")


async def broken_utf16(request: Request) -> Response:
    return Response(b"\x00\xd8" * 15_000_000, media_type="text/plain; charset=utf-16-le")


async def as_mallory(request: Request) -> Response:
    return RedirectResponse(f"http://mallory:pw@{request.url.netloc}/v1/echo/moved", 307)


async def broken(request: Request) -> Response:
    secret = request.headers.get("authorization", "")
    return Response(f"you sent {secret} " + "x" * 1_000_000, 500, media_type="text/plain")


async def slow(request: Request) -> Response:
    await anyio.sleep(600)
    return JSONResponse({})


async def picture(request: Request) -> Response:
    return Response(b"\x89PNG", media_type="image/png")


async def archive(request: Request) -> Response:
    return Response(b"PK\x00\xff", media_type="application/zip")


async def nested(request: Request) -> Response:
    return Response("[" * 100_000 + "]" * 100_000, media_type="application/json")


async def nothing(request: Request) -> Response:
    return Response(status_code=204)


async def seen(request: Request) -> Response:
    return JSONResponse(requests_seen)


async def record(scope, receive, send):
    if scope["type"] == "http" and scope["path"] != "/seen":
        requests_seen.append(scope["path"])
    await app(scope, receive, send)


verbs = ["GET", "POST", "PUT", "PATCH", "DELETE"]
app = Starlette(
    routes=[
        Route("/seen", seen),
        Route("/v1/invoices", invoices),
        *(
            Route(f"/v1/{handler.__name__}", handler)
            for handler in (
                *(elsewhere, moved, loop, bomb, broken),
                *(slow, picture, archive, nested, nothing),
                *(bomb_twice, odd_charset, cut_emoji, semicolons),
                *(halves, broken_utf16, as_mallory),
            )
        ),
        Route("/{rest:path}", echo, methods=verbs),
    ]
)

if __name__ == "__main__":
    uvicorn.run(record, host="127.0.0.1", port=int(sys.argv[-1]), log_level="critical")
