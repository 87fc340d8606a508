/**
 * The TypeScript client as a program of JSON lines; `clients/e2e/README.md` describes them.
 *
 *   node clients/e2e/typescript/main.ts
 */
import { chanceOf } from '../../../server/test/support/disk-faults/random.ts';
import { SEED } from '../../../server/test/support/runs.ts';
import { Client, type Failure, type Message, type Options, VERSION } from '../../typescript/src/index.ts';
import { diskSpool } from '../../typescript/src/spool.ts';

type Line = Record<string, unknown>;

const CALLS = ['identify', 'track', 'page', 'screen', 'group', 'alias'];
const OPTIONS = new Set(
  (
    'writeKey endpoint flushAt flushAfterMs timeoutMs closeTimeoutMs maxCalls maxBytes whenFull uploads spool ca ' +
    'waitScale verbose clockOffsetMs'
  ).split(' '),
);

function say(line: Line): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** An unknown command is a mistake in a test, and must fail it. */
function onlyKnows(line: Line, known: ReadonlySet<string>): void {
  const unknown = Object.keys(line).find((key) => !known.has(key));
  if (unknown !== undefined) throw new Error(`nobody knows the key ${unknown}`);
}

const CLOSED: ReadonlySet<string> = new Set(['closed', 'unreachable']);

/** How many calls were given up because the client was closed. */
interface Losses {
  closed: number;
}

function optionsOf(line: Line, losses: Losses): Options {
  onlyKnows(line, OPTIONS);
  const {
    whenFull,
    spool,
    waitScale = 1,
  } = line as {
    whenFull?: 'block' | 'refuse' | 'drop-oldest';
    spool?: { dir: string; maxBytes?: number };
    waitScale?: number;
  };
  const policy = whenFull === 'drop-oldest' ? 'drop-oldest' : 'refuse';
  const given = line as Record<string, number | undefined> & { endpoint?: string; verbose?: boolean };
  return {
    endpoint: given.endpoint,
    flushAt: given['flushAt'],
    flushAfter: given['flushAfterMs'],
    timeout: given['timeoutMs'],
    closeTimeout: given['closeTimeoutMs'],
    maxCalls: given['maxCalls'],
    maxBytes: given['maxBytes'],
    uploads: given['uploads'],
    verbose: given.verbose,
    whenFull: policy,
    spool: spool && diskSpool({ ...spool, whenFull: policy }),
    clock: {
      now: () => Date.now() + (given['clockOffsetMs'] ?? 0),
      random: chanceOf(SEED).next,
      scale: waitScale,
    },
    onSuccess: ({ messageId, type, tries }) => say({ callback: 'success', messageId, type, tries }),
    onFailure: (failure) => {
      if (failure.accepted && CLOSED.has(failure.code)) losses.closed++;
      reportLoss(failure);
    },
  };
}

/** The refusal of a call is the answer to its command. */
function reportLoss({ accepted, messageId, json, tries, code, message, uncertain }: Failure): void {
  if (!accepted) return;
  const { type } = JSON.parse(json || '{}') as { type?: string };
  say({ callback: 'failure', messageId, type, tries, uncertain, error: { code, message } });
}

const CANCELED = { code: 'canceled', message: 'the time is over' };

/** One command after the other: what waits holds up the rest, as it would in a program. */
class Commands {
  readonly #client: Client;
  readonly #blocks: boolean;
  readonly #losses: Losses;

  constructor(client: Client, blocks: boolean, losses: Losses) {
    this.#client = client;
    this.#blocks = blocks;
    this.#losses = losses;
  }

  async run(line: Line): Promise<Line> {
    const {
      do: verb,
      message,
      timeoutMs,
      waitMs,
    } = line as {
      do?: string;
      message?: object;
      timeoutMs?: number;
      waitMs?: number;
    };
    if (verb !== undefined && CALLS.includes(verb)) {
      onlyKnows(line, new Set(['id', 'do', 'message', 'waitMs']));
      return this.#call({ ...message, type: verb } as Message, waitMs);
    }
    onlyKnows(line, new Set(['id', 'do', 'timeoutMs']));
    if (verb === 'flush') {
      const until = this.#client.counts.accepted;
      const { delivered, failed } = await this.#client.flush({ timeout: timeoutMs });
      return delivered + failed >= until ? { ok: true } : { ok: false, error: CANCELED };
    }
    if (verb !== 'close') throw new Error(`nobody knows the command ${verb}`);
    const { pending } = await this.#client.close({ timeout: timeoutMs });
    if (pending === 0 && this.#losses.closed === 0) return { ok: true };
    const said = `${this.#losses.closed} calls were given up, ${pending} stay in the spool`;
    return { ok: false, error: { code: 'closed', message: said } };
  }

  async #call(message: Message, waitMs: number | undefined): Promise<Line> {
    const until = waitMs === undefined ? Number.POSITIVE_INFINITY : Date.now() + waitMs;
    let refusal = this.#client.send(message);
    while (this.#blocks && refusal?.code === 'full') {
      const left = until - Date.now();
      const isRoomy = await this.#client.room(left === Number.POSITIVE_INFINITY ? {} : { timeout: left });
      if (!isRoomy) return { ok: false, error: CANCELED };
      refusal = this.#client.send(message);
    }
    if (refusal === undefined) return { ok: true };
    const { code, message: sentence } = refusal;
    return { ok: false, error: { code, message: sentence } };
  }
}

/** `node:readline` also ends a line at U+2028, which JSON may contain. */
async function* linesOf(input: AsyncIterable<string | Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const part of input) {
    const lines = (rest + decoder.decode(part as Buffer, { stream: true })).split('\n');
    rest = lines.pop()!;
    yield* lines;
  }
}

async function serve(): Promise<void> {
  let commands: Commands | undefined;
  for await (const text of linesOf(process.stdin)) {
    const line = JSON.parse(text) as Line;
    if (commands !== undefined) {
      say({ id: line['id'], ...(await commands.run(line)) });
      continue;
    }
    try {
      const losses = { closed: 0 };
      const client = new Client(String(line['writeKey'] ?? ''), optionsOf(line, losses));
      commands = new Commands(client, (line['whenFull'] ?? 'block') === 'block', losses);
    } catch (cause) {
      const message = String(cause);
      say({ ready: false, error: { code: (cause as { code?: string }).code ?? 'invalid_option', message } });
      process.exit(2);
    }
    say({ ready: true, library: 'millrace-typescript', version: VERSION });
  }
  // As a program that just ends: nothing is closed.
  process.exit(0);
}

await serve();
