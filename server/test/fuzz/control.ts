import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import fc from 'fast-check';
import described from '../../../spec/openapi.json' with { type: 'json' };
import {
  type DescribedOperation,
  Document,
  type ReceivedResponse,
  targetOf,
} from '../control-api/document.ts';
import { hostileBodyOf, mapping } from '../control-api/hostile-bodies.ts';
import { requestOf } from '../control-api/random-requests.ts';
import { IS_LONG } from '../support/runs.ts';

/**
 * Milliseconds of the event loop's thread that one request may take, on a machine that parses the costliest
 * body in a fifth of it. A slower one may take five times what it parses that body in.
 */
const MOST_WORK = 100;
const MOST_PARSES = 5;

/**
 * A request that took longer is sent again so often, and its quickest time counts: a machine has other things
 * to do.
 */
const TRIES = 5;

const COSTLIEST_BODY = mapping(() => '{}');

/** The server under test: its address, token and process. */
export interface Asked {
  readonly url: string;
  readonly token: string;
  readonly pid: number;
}

export interface Findings {
  readonly requests: number;
  readonly statuses: ReadonlyMap<number, number>;
  /** Milliseconds of the costliest request, and which it was; absent where the system does not tell. */
  readonly costliest: { readonly work: number; readonly request: string } | undefined;
  readonly complaints: readonly string[];
}

const document = new Document(described);
// The tail goes on until the client leaves; backups are written wherever the body says.
const OPERATIONS = document.operations.filter(
  ({ path }) => path.startsWith('/api/v1/') && !/^\/api\/v1\/(tail|backups)/.test(path),
);

/** Sends so many random and hostile requests for all operations of the control API, one after the other. */
export async function fuzzControl(asked: Asked, seed: number, count: number): Promise<Findings> {
  const statuses = new Map<number, number>();
  const complaints: string[] = [];
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  let costliest: Findings['costliest'];
  let requests = 0;
  for (; requests < count && complaints.length < 20; requests++) {
    const attack = attackOf(seed, requests);
    const { got, work, isTooMuch } = await measured(attack, asked, agent);
    statuses.set(got.status, (statuses.get(got.status) ?? 0) + 1);
    const name = `control ${seed}:${requests}, ${attack.operation.method} ${attack.target.slice(0, 100)}, ${attack.body.length} bytes`;
    complaints.push(...faultsOf(attack.operation, got).map((fault) => `${name}: ${fault.slice(0, 500)}`));
    if (work !== undefined && work > (costliest?.work ?? 0)) costliest = { work, request: name };
    // The gate only prints it: bounded-work.test.ts counts the work, and no slow machine changes that.
    if (isTooMuch && IS_LONG) complaints.push(`${name}: took ${Math.round(work!)} ms of work`);
  }
  agent.destroy();
  return { requests, statuses, costliest, complaints };
}

interface Attack {
  readonly operation: DescribedOperation;
  readonly target: string;
  readonly body: string;
}

/** The same for the same seed and number. */
function attackOf(seed: number, nth: number): Attack {
  const operation = OPERATIONS[nth % OPERATIONS.length]!;
  const drawn = fc.tuple(requestOf(operation), hostileBodyOf(operation));
  const [[plan, body]] = fc.sample(drawn, { numRuns: 1, seed: seed * 1_000_003 + nth }) as [[never, string]];
  return { operation, target: targetOf(operation, plan), body };
}

function faultsOf(operation: DescribedOperation, got: ReceivedResponse): string[] {
  if (got.status >= 500 && got.status !== 503) return [`was answered ${got.status} ${got.body}`];
  return document.faultsOf(operation, got);
}

interface Measured {
  readonly got: ReceivedResponse;
  readonly work: number | undefined;
  readonly isTooMuch: boolean;
}

/** The first answer, and the least work of several tries where the first took too much. */
async function measured(attack: Attack, asked: Asked, agent: Agent): Promise<Measured> {
  const once = async () => {
    const before = workOf(asked.pid);
    const got = await send(attack, asked, agent);
    const after = workOf(asked.pid);
    // Removes created records: they would make the next answer larger.
    if (got.status < 300 && attack.operation.method !== 'GET') await send(EMPTIED, asked, agent);
    return { got, work: before === undefined || after === undefined ? undefined : after - before };
  };
  const { got, work } = await once();
  if (work === undefined || work <= MOST_WORK) return { got, work, isTooMuch: false };
  let least = work;
  let parse = parsingTime();
  for (let n = 1; n < TRIES && least > MOST_WORK; n++) {
    least = Math.min(least, (await once()).work!);
    parse = Math.min(parse, parsingTime());
  }
  return { got, work: least, isTooMuch: least > Math.max(MOST_WORK, MOST_PARSES * parse) };
}

/** Milliseconds of a processor that this machine takes now to parse the costliest body. */
function parsingTime(): number {
  const before = process.threadCpuUsage();
  JSON.parse(COSTLIEST_BODY);
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}

const EMPTIED: Attack = {
  operation: document.operations.find(({ id }) => id === 'putConfig')!,
  target: '/api/v1/config?prune=true&confirm=true',
  body: '{}',
};

/** Milliseconds that the thread of the event loop has run so far; Linux alone tells. */
function workOf(pid: number): number | undefined {
  try {
    return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
  } catch {
    return undefined;
  }
}

function send(
  { operation: { method }, target, body }: Attack,
  { url, token }: Asked,
  agent: Agent,
): Promise<ReceivedResponse> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, 'content-length': Buffer.byteLength(body) };
    const asked = request(url + target, { method, headers, agent }, (response) => {
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => parts.push(part));
      response.once('error', reject);
      response.once('end', () => {
        const { statusCode: status = 0, headers: said } = response;
        resolve({ status, headers: said, body: Buffer.concat(parts).toString() });
      });
    });
    asked.once('error', reject);
    asked.end(body);
  });
}
