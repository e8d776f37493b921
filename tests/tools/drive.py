#!/usr/bin/env python3
# drive.py BROWSER PAGE LARGE: a report in headless Chromium, used by mouse and keyboard over the DevTools protocol, by a pipe
# (--remote-debugging-pipe: messages of JSON that end in NUL): zooms, moves, hovers, chooses, searches, prints, in light and dark; LARGE
# has 50,000 operations. Prints a case a line, as tests do.
import json, os, subprocess, sys, tempfile, time


class Browser:
    def __init__(self, program, profile):
        mine, theirs = os.pipe(), os.pipe()  # what it reads, what it writes: its files 3 and 4
        move = f'exec 3<&{mine[0]} 4>&{theirs[1]}; exec "$@"'
        self.process = subprocess.Popen(['bash', '-c', move, 'bash', program, '--headless=new', '--no-sandbox', '--disable-gpu', '--hide-scrollbars',
                                         '--remote-debugging-pipe', '--window-size=1280,800', f'--user-data-dir={profile}', 'about:blank'],
                                        pass_fds=(mine[0], theirs[1]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(mine[0]), os.close(theirs[1])
        self.to, self.from_, self.rest, self.number, self.session, self.wrong, self.loaded = mine[1], theirs[0], b'', 0, None, [], 0
        target = next(t for t in self.ask('Target.getTargets')['targetInfos'] if t['type'] == 'page')
        self.session = self.ask('Target.attachToTarget', targetId=target['targetId'], flatten=True)['sessionId']
        for domain in 'Page', 'Runtime', 'Log':
            self.ask(domain + '.enable')

    def message(self):
        while b'\0' not in self.rest:
            more = os.read(self.from_, 1 << 20)
            if not more:
                raise EOFError('the browser has ended')
            self.rest += more
        text, self.rest = self.rest.split(b'\0', 1)
        return json.loads(text)

    def note(self, m):
        method, p = m.get('method'), m.get('params', {})
        if method == 'Page.loadEventFired':
            self.loaded += 1
        elif method == 'Runtime.exceptionThrown' or (method == 'Runtime.consoleAPICalled' and p['type'] in ('error', 'warning')) or \
                (method == 'Log.entryAdded' and p['entry']['level'] in ('error', 'warning')):
            self.wrong.append(json.dumps(p)[:300])

    def ask(self, method, **params):
        self.number += 1
        m = {'id': self.number, 'method': method, 'params': params}
        if self.session:
            m['sessionId'] = self.session
        os.write(self.to, json.dumps(m).encode() + b'\0')
        while (answer := self.message()).get('id') != self.number:
            self.note(answer)
        if 'error' in answer:
            raise RuntimeError(method + ': ' + answer['error']['message'])
        return answer['result']

    def open(self, path):
        before = self.loaded
        self.ask('Page.navigate', url='file://' + os.path.abspath(path))
        while self.loaded == before:
            self.note(self.message())

    def eval(self, text):
        r = self.ask('Runtime.evaluate', expression=text, returnByValue=True, awaitPromise=True)
        if 'exceptionDetails' in r:
            raise RuntimeError(text + ': ' + json.dumps(r['exceptionDetails'])[:300])
        return r['result'].get('value')

    def mouse(self, kind, x, y, **more):
        self.find_canvas()  # a search scrolls to its field
        self.ask('Input.dispatchMouseEvent', type='mouse' + kind, x=self.box['x'] + x, y=self.box['y'] + y, **more)

    def key(self, key, **more):
        text = {'text': key} if len(key) == 1 else {'text': '\r'} if key == 'Enter' else {}
        for kind in 'keyDown', 'keyUp':
            self.ask('Input.dispatchKeyEvent', type=kind, key=key, windowsVirtualKeyCode={'Enter': 13, 'Escape': 27}.get(key, 0), **(text if kind == 'keyDown' else {}))

    # ---- the timeline
    def find_canvas(self):
        self.eval('document.getElementById("canvas").scrollIntoView({block: "start"})')
        self.box = self.eval('(() => { const r = document.getElementById("canvas").getBoundingClientRect(); return {x: r.x, y: r.y, width: r.width, height: Math.min(r.height, innerHeight - r.y - 4)} })()')

    def drawn(self):  # once what is pending is painted
        return self.eval('new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(document.getElementById("canvas").toDataURL()))))')

    def text(self, element):
        return self.eval(f'(() => {{ const e = document.getElementById("{element}"); return e.hidden ? "" : e.textContent }})()')

    def hover(self, x, y):
        self.mouse('Moved', x, y)
        return self.text('tip')

    def search(self, text):
        self.key('/')
        self.eval('document.getElementById("search").value = ""')
        self.ask('Input.insertText', text=text)


def say(case, good, why=''):
    print(f'ok browser: {case}' if good else f'not ok browser: {case}: {str(why)[:300]}')


def drive(b, page):
    b.open(page)
    b.find_canvas()
    middle, whole = (b.box['width'] + 168) / 2, b.drawn()
    b.search('block_2')
    b.key('Enter')
    found, chosen = b.text('found'), b.text('chosen')
    say('a search finds', found.startswith('1 of ') and 'block_2' in chosen, (found, chosen))
    near = b.drawn()
    name = chosen.split(': ', 1)[1].split(', ')[0]
    rows = [(y, b.hover(middle, y)) for y in range(26, int(b.box['height']), 9)]
    y, tip = next(((y, t) for y, t in rows if t.split('\n')[0] == name), (0, ''))
    say('what is found is in the middle, and hovering says what it is', 'block_2' in tip and 'line ' in tip and 'operation ' in tip and ', kernel k' in tip, (name, rows[:6]))
    say('and how much it is', 'FLOP/s' in tip and 'B/s' in tip, tip)
    b.eval('document.activeElement.blur()')
    b.key('n')
    say('n goes to the next one', b.text('found').startswith('2 of '), b.text('found'))
    b.key('N')
    b.drawn()
    say('N back', b.text('found').startswith('1 of ') and b.hover(middle, y).split('\n')[0] == name, b.text('found'))
    b.mouse('Wheel', middle, y, deltaX=0, deltaY=900)
    out = b.drawn()
    say('the wheel zooms out', out != near and b.hover(middle, y).split('\n')[0] == name, b.hover(middle, y))
    b.mouse('Wheel', middle, y, deltaX=0, deltaY=-1800)
    close = b.drawn()
    say('and in, around the pointer', close != out and b.hover(middle, y).split('\n')[0] == name, b.hover(middle, y))
    b.mouse('Wheel', middle, y, deltaX=0, deltaY=900)
    left = 'left'
    b.mouse('Pressed', middle, y, button=left, buttons=1, clickCount=1)
    for x in range(20, 121, 20):
        b.mouse('Moved', middle + x, y, button=left, buttons=1)
    b.mouse('Released', middle + 120, y, button=left, clickCount=1)
    b.drawn()
    say('dragging moves', b.hover(middle + 120, y).split('\n')[0] == name, b.hover(middle + 120, y))
    b.key('Escape')
    say('Escape lets go', b.text('chosen') == '', b.text('chosen'))
    b.search('all-reduce')
    b.key('Enter')
    b.drawn()
    name = b.text('chosen').split(': ', 1)[1].split(', ')[0]
    y = next((y for y in range(26, int(b.box['height']), 9) if b.hover(middle, y).split('\n')[0] == name), 0)
    b.key('Escape')
    b.mouse('Pressed', middle, y, button=left, buttons=1, clickCount=1)
    b.mouse('Released', middle, y, button=left, clickCount=1)
    lines = b.text('chosen').split('\n')
    say('a click chooses, with what it waits for and who waits', name in lines[0] and len(lines) > 1 and all(l.startswith(('  after ', '  before ')) for l in lines[1:]), lines)
    for key in 'Escape', '+', 'ArrowLeft', '-', 'ArrowRight':
        b.key(key)
    b.search('')
    b.key('Escape')
    b.eval('document.activeElement.blur()')
    b.mouse('Moved', middle, 2)
    b.key('0')
    say('0 shows all, as it was', b.drawn() == whole)
    b.search('line:5')
    say('a line is found', b.text('found').split()[0].isdigit() and int(b.text('found').split()[0]) > 3, b.text('found'))
    b.search('no such layer')
    say('nothing is found', b.text('found') == '0 found', b.text('found'))
    b.search('e')
    count = int(b.text('found').split()[0])
    for i in range(min(count, 250)):
        b.key('Enter')
    say('what is found can be chosen, one after the other', count > 100 and b.text('found') == f'{min(count, 250)} of {count}' and not b.wrong, (b.text('found'), b.wrong))
    b.ask('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': 'dark'}])
    say('dark', b.drawn() != whole and b.eval('getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).every(c => c < 60)'), b.eval('getComputedStyle(document.body).backgroundColor'))
    say('it fits into 1280 x 800', b.eval('document.documentElement.scrollWidth <= innerWidth && innerWidth === 1280'), b.eval('[document.documentElement.scrollWidth, innerWidth]'))
    night = b.drawn()
    b.eval('addEventListener("beforeprint", () => window.printed = document.getElementById("canvas").getContext("2d").getImageData(2, 2, 1, 1).data[0])')
    say('it prints, light on paper', len(b.ask('Page.printToPDF')['data']) > 20000 and b.eval('window.printed') > 200 and b.drawn() == night, b.eval('window.printed'))
    b.ask('Emulation.setDeviceMetricsOverride', width=718, height=1000, deviceScaleFactor=1, mobile=False)  # A4
    b.ask('Emulation.setEmulatedMedia', media='print')
    wide = b.eval('[...document.querySelectorAll("table, svg, canvas")].filter(e => e.getBoundingClientRect().right > innerWidth).map(e => e.textContent.slice(0, 40))')
    say('whole on A4', wide == [], wide)
    b.ask('Emulation.clearDeviceMetricsOverride')
    b.ask('Emulation.setEmulatedMedia', media='', features=[])


def large(b, page):
    paints = []
    for _ in range(3):  # the machine may be busy with other things
        b.open(page)  # from the request to the end of the script, which paints: what is in the page comes before it
        paints.append(b.eval('performance.getEntriesByType("navigation")[0].loadEventStart'))
        if paints[-1] < 2000:
            break
    slices = b.eval('document.body.dataset.slices')
    say(f'{slices} operations are read and painted in {min(paints):.0f} ms from the request on', slices == '50000' and min(paints) < 2000, paints)
    b.find_canvas()
    seen, began = set(), time.time()
    for i in range(40):
        b.mouse('Wheel', b.box['width'] / 2, 30, deltaX=0, deltaY=-400 if i < 20 else 400)
        seen.add(b.drawn())
    say('and zoomed', len(seen) > 15, len(seen))
    tips = {b.hover(x, 30) for x in range(200, 1000, 100)}
    say('hovering says each', len(tips) > 5 and all('layer' in t for t in tips), tips)


with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
    b = Browser(sys.argv[1], profile)
    try:
        drive(b, sys.argv[2])
        large(b, sys.argv[3])
        say('no error in the console', not b.wrong, b.wrong[:2])
    finally:
        b.process.kill()
        b.process.wait()
