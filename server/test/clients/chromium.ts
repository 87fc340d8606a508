import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GIVE_UP_AFTER } from '../support/until.ts';

/** Where the browser is, or undefined when this machine has none. */
export function findChromium(): string | undefined {
  const path = process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium';
  try {
    accessSync(path, constants.X_OK);
    return path;
  } catch {
    return undefined;
  }
}

/** One tab with cookies and storage of its own. */
export interface Page {
  /** Resolves when the page and its scripts have been loaded. */
  open(url: string): Promise<void>;
  /** The value of an expression, its promise awaited; rejects with what the page threw. */
  evaluate(expression: string): Promise<unknown>;
  close(): Promise<void>;
}

export interface Chromium {
  readonly version: string;
  newPage(): Promise<Page>;
  stop(): Promise<void>;
}

const ARGUMENTS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
  '--no-default-browser-check',
  // Several tabs at once, none of them slowed down because another is in front.
  '--disable-background-timer-throttling',
  '--disable-backgrounding-occluded-windows',
  '--disable-renderer-backgrounding',
  // Whatever a script asks for, nothing but this machine is found.
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
  // The browser does not know the authority that signed the proxy's certificate.
  '--ignore-certificate-errors',
  '--remote-debugging-port=0',
];

/** Starts the browser and speaks its DevTools protocol, in as few words as this suite needs. */
export async function startChromium(path: string): Promise<Chromium> {
  const profile = mkdtempSync(join(tmpdir(), 'millrace-chromium-'));
  const child = spawn(path, [...ARGUMENTS, `--user-data-dir=${profile}`, 'about:blank'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const exited = once(child, 'exit');
  const address = await new Promise<string>((resolve, reject) => {
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text;
      const found = /DevTools listening on (ws:\/\/\S+)/.exec(said);
      if (found !== null) resolve(found[1]!);
    });
    child.once('exit', (code) => reject(new Error(`${path} ended with ${code}:\n${said}`)));
    child.once('error', reject);
  });
  const protocol = await connect(address);
  const { product } = (await protocol.send('Browser.getVersion')) as { product: string };
  return {
    version: product.replace(/^.*\//, ''),
    newPage: () => newPage(protocol),
    async stop() {
      // Its own way out ends its children too; they would write to the profile for a while after a SIGKILL.
      const late = setTimeout(() => child.kill('SIGKILL'), GIVE_UP_AFTER);
      // The browser may close the connection before it has answered. That it has ended is the answer.
      await Promise.all([exited, protocol.send('Browser.close').catch(() => {})]);
      clearTimeout(late);
      protocol.close();
      rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
    },
  };
}

interface Message {
  readonly id?: number;
  readonly sessionId?: string;
  readonly method?: string;
  readonly params?: object;
  readonly result?: object;
  readonly error?: { readonly message: string };
}

interface Protocol {
  send(method: string, params?: object, sessionId?: string): Promise<object>;
  /** Resolves at the next event of this name in this session. */
  next(event: string, sessionId: string): Promise<void>;
  /** Complaints of the browser in this session: refused requests, scripts that failed. */
  complaints(sessionId: string): readonly string[];
  close(): void;
}

async function connect(address: string): Promise<Protocol> {
  const socket = new WebSocket(address);
  const answers = new Map<number, (message: Pick<Message, 'result' | 'error'>) => void>();
  const waiting = new Set<{ readonly event: string; readonly sessionId: string; resolve: () => void }>();
  const complaints: { readonly sessionId: string | undefined; readonly text: string }[] = [];
  let sent = 0;
  socket.addEventListener('message', ({ data }) => {
    const message = JSON.parse(String(data)) as Message;
    if (message.id !== undefined) {
      answers.get(message.id)?.(message);
      answers.delete(message.id);
      return;
    }
    if (message.method === 'Log.entryAdded') {
      const { entry } = message.params as { entry: { text: string } };
      complaints.push({ sessionId: message.sessionId, text: entry.text });
    }
    for (const waiter of waiting) {
      if (waiter.event !== message.method || waiter.sessionId !== message.sessionId) continue;
      waiting.delete(waiter);
      waiter.resolve();
    }
  });
  socket.addEventListener('close', () => {
    for (const answer of answers.values())
      answer({ error: { message: 'the browser closed the connection' } });
    answers.clear();
  });
  await new Promise<void>((resolve, reject) => {
    socket.addEventListener('open', () => resolve());
    socket.addEventListener('error', () => reject(new Error(`no connection to ${address}`)));
  });
  return {
    send: (method, params = {}, sessionId) =>
      new Promise((resolve, reject) => {
        // A closed socket takes what is sent to it and says nothing.
        if (socket.readyState !== WebSocket.OPEN) {
          reject(new Error(`${method}: the browser has closed the connection`));
          return;
        }
        const id = ++sent;
        answers.set(id, ({ result, error }) => {
          if (error === undefined) resolve(result ?? {});
          else reject(new Error(`${method}: ${error.message}`));
        });
        socket.send(JSON.stringify({ id, method, params, sessionId }));
      }),
    next: (event, sessionId) =>
      new Promise((resolve) => {
        waiting.add({ event, sessionId, resolve });
      }),
    complaints: (sessionId) =>
      complaints.filter((complaint) => complaint.sessionId === sessionId).map(({ text }) => text),
    close: () => socket.close(),
  };
}

async function newPage(protocol: Protocol): Promise<Page> {
  const { browserContextId } = (await protocol.send('Target.createBrowserContext')) as {
    browserContextId: string;
  };
  const { targetId } = (await protocol.send('Target.createTarget', {
    url: 'about:blank',
    browserContextId,
  })) as { targetId: string };
  const { sessionId } = (await protocol.send('Target.attachToTarget', { targetId, flatten: true })) as {
    sessionId: string;
  };
  await protocol.send('Page.enable', {}, sessionId);
  await protocol.send('Log.enable', {}, sessionId);
  return {
    async open(url) {
      const loaded = protocol.next('Page.loadEventFired', sessionId);
      await protocol.send('Page.navigate', { url }, sessionId);
      await loaded;
    },
    async evaluate(expression) {
      const params = { expression, awaitPromise: true, returnByValue: true };
      const { result, exceptionDetails } = (await protocol.send('Runtime.evaluate', params, sessionId)) as {
        result: { value?: unknown };
        exceptionDetails?: { text: string; exception?: { description?: string; value?: unknown } };
      };
      if (exceptionDetails === undefined) return result.value;
      const { text, exception } = exceptionDetails;
      const thrown = exception?.description ?? JSON.stringify(exception?.value) ?? text;
      throw new Error(['in the page:', thrown, ...protocol.complaints(sessionId)].join('\n'));
    },
    async close() {
      await protocol.send('Target.disposeBrowserContext', { browserContextId });
    },
  };
}
