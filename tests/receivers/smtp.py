"""A mail server for the demo and the tests. Prints one line of JSON for each mail that it accepted, and `{"ready": true}`
once it listens. It ends when its standard input does, so it never outlives who started it. Needs aiosmtpd
(`scripts/flink receivers`).

    smtp.py PORT plain
    smtp.py PORT starttls CERTIFICATE KEY USER PASSWORD     refuses a mail without TLS and without a log-in
    smtp.py PORT tls      CERTIFICATE KEY USER PASSWORD     TLS from the first byte; refuses a mail without a log-in
"""

import asyncio
import email
import email.policy
import json
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword


class Keeper:
    async def handle_DATA(self, server, session, envelope):
        message = email.message_from_bytes(envelope.original_content, policy=email.policy.default)
        text = message.get_body(preferencelist=("plain", "html"))
        tell({
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "subject": message["subject"],
            "text": text.get_content() if text else "",
            "tls": session.ssl is not None or mode == "tls",
            "authenticated": bool(session.authenticated),
            "message": envelope.original_content.decode("utf-8", "replace"),
        })
        return "250 kept"


def tell(fact):
    print(json.dumps(fact), flush=True)


def authenticator(server, session, envelope, mechanism, data):
    right = isinstance(data, LoginPassword) and (data.login.decode(), data.password.decode()) == (user, password)
    return AuthResult(success=right, handled=False)


def settings():
    if mode == "plain":
        return {}, None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    login = {"authenticator": authenticator, "auth_required": True}
    if mode == "tls":
        # aiosmtpd asks for STARTTLS before AUTH; here all is inside TLS already.
        return {**login, "auth_require_tls": False}, context
    return {**login, "tls_context": context, "require_starttls": True}, None


async def main():
    options, context = settings()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(Keeper(), hostname="localhost", enable_SMTPUTF8=True, **options),
                                      "127.0.0.1", port, ssl=context, reuse_address=True)
    tell({"ready": True})
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


port, mode = int(sys.argv[1]), sys.argv[2]
certificate, key, user, password = sys.argv[3:7] if mode != "plain" else (None,) * 4
asyncio.run(main())
