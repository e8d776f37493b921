"""A client of the language server, for tests/lsp.test: sends messages, waits for answers, keeps diagnostics."""
import json
import os
import select
import subprocess
import time


class Client:
    def __init__(self, mgpuc, folder, initialize=True, preexec=None):
        self.folder = folder
        self.process = subprocess.Popen([mgpuc, "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, preexec_fn=preexec)
        self.buffer = b""
        self.messages = []  # that nobody has taken
        self.diagnostics = {}  # uri -> the last list
        self.published = 0
        self.next_id = 0
        if initialize:
            self.capabilities = self.request("initialize", {"capabilities": {}})["result"]["capabilities"]
            self.notify("initialized", {})

    def uri(self, name):
        return "file://" + os.path.join(self.folder, name)

    def raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        body = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogateescape")
        self.raw(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def notify(self, method, params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method, params):
        self.next_id += 1
        self.send({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params})
        return self.next_id

    def receive(self, seconds):
        """one message, or None"""
        end = time.monotonic() + seconds
        while True:
            head, found, rest = self.buffer.partition(b"\r\n\r\n")
            if found:
                length = int(head.split(b"Content-Length:")[1].split()[0])
                if len(rest) >= length:
                    self.buffer = rest[length:]
                    return json.loads(rest[:length])
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            data = os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""
            if not data:
                return None
            self.buffer += data

    def take(self, fits, seconds=60):
        end = time.monotonic() + seconds
        while True:
            for i, message in enumerate(self.messages):
                if fits(message):
                    return self.messages.pop(i)
            message = self.receive(max(0, end - time.monotonic()))
            if message is None:
                raise SystemExit("not ok lsp: no answer in time")
            if message.get("method") == "textDocument/publishDiagnostics":
                self.diagnostics[message["params"]["uri"]] = message["params"]["diagnostics"]
                self.published += 1
            self.messages.append(message)

    def answer(self, number, seconds=60):
        return self.take(lambda m: m.get("id") == number and "method" not in m, seconds)

    def request(self, method, params):
        return self.answer(self.ask(method, params))

    # ---- documents
    def open(self, name, text):
        self.notify("textDocument/didOpen", {"textDocument": {"uri": self.uri(name), "languageId": "mgpu", "version": 1, "text": text}})

    def change(self, name, *changes):
        self.notify("textDocument/didChange", {"textDocument": {"uri": self.uri(name), "version": 2}, "contentChanges": list(changes)})

    def close(self, name):
        self.notify("textDocument/didClose", {"textDocument": {"uri": self.uri(name)}})

    def wrong(self, name, fits, seconds=60):
        """waits until the diagnostics of the file fit, and returns them"""
        uri, end = self.uri(name), time.monotonic() + seconds
        while not (uri in self.diagnostics and fits(self.diagnostics[uri])):
            message = self.receive(max(0, end - time.monotonic()))
            if message is None:
                return self.diagnostics.get(uri)
            if message.get("method") == "textDocument/publishDiagnostics":
                self.diagnostics[message["params"]["uri"]] = message["params"]["diagnostics"]
                self.published += 1
            else:
                self.messages.append(message)
        return self.diagnostics[uri]

    def at(self, method, name, line, character, **more):
        params = {"textDocument": {"uri": self.uri(name)}, "position": {"line": line, "character": character}, **more}
        return self.request("textDocument/" + method, params)

    def end(self):
        self.request("shutdown", None)
        self.notify("exit", None)
        return self.process.wait(30)


def place_of(text, part, nth=1):
    """(line, character in UTF-16 units) of the nth place where `part` begins"""
    at = -1
    for _ in range(nth):
        at = text.index(part, at + 1)
    line = text.count("\n", 0, at)
    return line, len(text[text.rfind("\n", 0, at) + 1 : at].encode("utf-16-le")) // 2
