import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startReceiver } from './delivering.ts';
import { CONNECTIONS } from './figures.ts';
import { startMillrace } from './millrace.ts';
import { cpuOf, cpuOfThreads, result } from './processes.ts';

/**
 * The budget of one event: `node bench/stages.ts`, with SECONDS (15) of single calls, then of batches of 100,
 * to one destination. Prints the microseconds of processor time that each stage takes for an event, as
 * sampled by V8's profiler in every thread, beside the least that the same work takes: taking a request and
 * sending one over bare sockets, and inserting a row.
 *
 * A sample belongs to the nearest function of ours on its stack, so a stage includes what it calls of Node,
 * V8 and the system. The profiler looks at each thread at regular times, also while it waits for the disk. So
 * the shares of a thread are scaled to its own processor time: a wait makes the other stages of that thread
 * look a little smaller, and nothing else.
 */
const SECONDS = Number(process.env['SECONDS'] ?? 15);

/** Where a function of ours belongs: the first path that its file begins with. */
const STAGES: readonly (readonly [string, string])[] = [
  ['http/', 'take and answer the request'],
  ['ingest/', 'parse, normalize, make a commit'],
  ['model/', 'parse, normalize, make a commit'],
  ['routing/', 'plan'],
  ['adapters/sqlite/store.ts', 'hand over to the writer thread'],
  ['adapters/sqlite/', 'store: events, keys, results'],
  ['adapters/encoding/', 'encode and decode'],
  ['delivery/', 'deliver: worker, round, result'],
  ['destinations/', 'make and sign the request'],
  ['adapters/http-client/', 'send, read the answer'],
];
const COLLECTOR = 'garbage collection';
const REST = 'event loop and the rest';
/** The names of further threads, and their stages. */
const HELPERS: readonly (readonly [string, string])[] = [
  ['V8Worker', "V8's helper threads"],
  ['v8:ProfEvntProc', 'the profiler'],
];

/** The names that the system has for the threads with profiles, by a file that runs only in them. */
const THREADS: readonly (readonly [string, string])[] = [
  ['/sqlite/writer.ts', 'millrace-writer'],
  ['/wal/checkpointer.ts', 'millrace-checkp'],
  ['/http-client/sender.ts', 'millrace-sender'],
  ['/delivery/worker.ts', 'MainThread'],
];

interface Profile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly url: string; readonly functionName: string };
    readonly children?: readonly number[];
  }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

const folder = mkdtempSync(join(tmpdir(), 'millrace-stages-'));
try {
  for (const events of [1, 100]) await measure(events);
  await printLimits();
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function measure(events: number): Promise<void> {
  const [receiver, port] = await startReceiver();
  const profiles = mkdtempSync(join(folder, 'profiles-'));
  const env = { NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${profiles}` };
  const server = startMillrace(folder, { port, env });
  const [, url] = await server.saw(/ready on (\S+)/);
  const sent = await result<{ events: number }>([
    ...['bench/load.ts', url!, String(CONNECTIONS), String(SECONDS), String(events)],
  ]);
  while (Number(await receiver.ask('count')) < sent.events) await sleep(50);
  const micros = (server.cpu() * 1e6) / sent.events;
  const threads = cpuOfThreads(server.child.pid!);
  await server.stop();
  await receiver.stop();
  const seconds = new Map(HELPERS.map(([thread, stage]) => [stage, threads.get(thread) ?? 0]));
  for (const file of readdirSync(profiles))
    addUp(JSON.parse(readFileSync(join(profiles, file), 'utf8')) as Profile, threads, seconds);
  console.log(`${events === 1 ? 'single calls' : `batches of ${events}`}: ${micros.toFixed(1)} µs an event`);
  for (const [stage, cpu] of [...seconds].sort((a, b) => b[1] - a[1]))
    console.log(`  ${stage.padEnd(36)} ${((cpu * 1e6) / sent.events).toFixed(2).padStart(6)} µs`);
}

/**
 * Adds the processor time of the profiled thread to the stages, by their samples. A thread that did next to
 * nothing has none of these files.
 */
function addUp(
  { nodes, samples, timeDeltas }: Profile,
  threads: ReadonlyMap<string, number>,
  seconds: Map<string, number>,
): void {
  const isOf = (file: string) => nodes.some(({ callFrame }) => callFrame.url.endsWith(file));
  const cpu = threads.get(THREADS.find(([file]) => isOf(file))?.[1] ?? '') ?? 0;
  const stages = new Map<number, string | undefined>();
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const visit = (id: number, above: string | undefined): void => {
    const { callFrame, children = [] } = byId.get(id)!;
    const stage = stageOf(callFrame) ?? above;
    stages.set(id, callFrame.functionName === '(idle)' ? undefined : (stage ?? REST));
    for (const child of children) visit(child, stage);
  };
  visit(nodes[0]!.id, undefined);
  const times = new Map<string, number>();
  samples.forEach((id, nth) => {
    const stage = stages.get(id);
    if (stage !== undefined) times.set(stage, (times.get(stage) ?? 0) + timeDeltas[nth]!);
  });
  const total = [...times.values()].reduce((sum, time) => sum + time, 0);
  for (const [stage, time] of times) seconds.set(stage, (seconds.get(stage) ?? 0) + (cpu * time) / total);
}

function stageOf({ url, functionName }: Profile['nodes'][number]['callFrame']): string | undefined {
  if (functionName === '(garbage collector)') return COLLECTOR;
  const path = url.split('/server/src/')[1];
  return path && STAGES.find(([start]) => path.startsWith(start))?.[1];
}

/** The least cost of the same work, in this run and on this machine. */
async function printLimits(): Promise<void> {
  const [receiver, port] = await startReceiver();
  const before = cpuOf(receiver.child.pid!);
  const sent = await result<{ events: number; perCpuSecond: number }>([
    ...['bench/load.ts', `http://127.0.0.1:${port}`, String(CONNECTIONS), String(SECONDS), '1'],
  ]);
  const taken = sent.events / (cpuOf(receiver.child.pid!) - before);
  await receiver.stop();
  const inserted = async (events: number) => {
    const args = ['bench/bare.ts', 'insert', join(folder, `bare-${events}.db`), String(events), '5'];
    return (await result<{ perCpuSecond: number }>(args)).perCpuSecond;
  };
  const print = (what: string, perSecond: number) =>
    console.log(`  ${what.padEnd(36)} ${(1e6 / perSecond).toFixed(2).padStart(6)} µs`);
  console.log('the least that is possible, for each request or event');
  print('take a request over bare sockets', taken);
  print('send a request over bare sockets', sent.perCpuSecond);
  print('insert an event of a single call', await inserted(1));
  print('insert an event of a batch of 100', await inserted(100));
}
