import { randomUUID } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { basename } from 'node:path';
import { Client } from '@millrace/client';
import { systemClock } from './clock.ts';
import { count, span } from './column.ts';
import { FileImport } from './file-import.ts';
import type { Readable } from './file-lines.ts';
import { ImportDisplay } from './import-display.ts';
import {
  type ImportIdentity,
  NOTHING_DONE,
  type Progress,
  readProgress,
  writeProgress,
} from './import-progress.ts';
import { keptRejects, type Rejects, shownRejects } from './rejects.ts';
import type { ExitCode, RunContext } from './run-context.ts';
import { STANDARD_INPUT, StreamReader } from './standard-input.ts';
import { whyUnreachable } from './unreachable.ts';

export interface SendFileOptions {
  readonly file: string;
  readonly writeKey: string;
  readonly endpoint: string;
  /** Path of the progress file. Default: beside the input file. */
  readonly progress?: string | undefined;
  /** Path of the rejects file. When absent, rejects are shown on stderr. */
  readonly rejects?: string | undefined;
}

/** Maximum calls of a request. The other limit is half a megabyte of calls. */
const BATCH = 500;
const UPLOADS = 4;
/** Maximum calls under way and queued. More would only take memory. */
const MOST_CALLS = 4 * UPLOADS * BATCH;
/** Milliseconds that Ctrl-C waits for calls under way. */
const PATIENCE_MS = 10_000;

/**
 * `millrace send --file events.ndjson`: sends the calls of a file, one JSON object a line. Continues where an
 * earlier run ended. Ends with 1 when a line was refused or some calls are not settled. spec/contract.md,
 * "Verbs that send".
 */
export async function sendFile(options: SendFileOptions, context: RunContext): Promise<ExitCode> {
  if (options.file === STANDARD_INPUT) return await sendStream(options, context);
  let file: FileHandle;
  try {
    file = await open(options.file);
  } catch (error) {
    return wrong(context, `${options.file} cannot be read: ${messageOf(error)}`);
  }
  try {
    return await importFrom(file, options, context);
  } finally {
    await file.close();
  }
}

async function importFrom(
  file: FileHandle,
  options: SendFileOptions,
  context: RunContext,
): Promise<ExitCode> {
  const { file: path, endpoint, writeKey } = options;
  const stat = await file.stat();
  if (!stat.isFile()) return wrong(context, `${path} is no file: an import needs one it can go on with`);
  const identity = { path, endpoint, writeKey };
  const progressPath = options.progress ?? `${path}.progress`;
  const from = await readProgress(progressPath, identity, file);
  if (typeof from === 'string') return wrong(context, from);
  const begun =
    from.line === 0 ? undefined : `${path} goes on at line ${count(from.line + 1)}, as ${progressPath} says.`;
  const keep = async (progress: Progress) => {
    try {
      await writeProgress(progressPath, progress, { identity, file });
    } catch (error) {
      throw new Error(`${progressPath}: ${messageOf(error)}`, { cause: error });
    }
  };
  const source = { file, from, keep, size: stat.size, name: basename(path), begun };
  return await importAll(source, options, context);
}

/**
 * Sends calls from standard input. A stream cannot be resumed: no progress is saved, and each run makes new
 * ids.
 */
async function sendStream(options: SendFileOptions, context: RunContext): Promise<ExitCode> {
  if (options.progress !== undefined)
    return wrong(context, 'standard input cannot be gone on with, so --progress needs a file');
  const file = new StreamReader(context.in);
  const source = { file, from: NOTHING_DONE, keep: undefined, size: undefined, name: randomUUID() };
  const code = await importAll({ ...source, begun: undefined }, options, context);
  // A person may still be typing.
  context.in.destroy();
  return code;
}

/** The input of an import, and its known facts. */
interface Imported {
  readonly file: Readable;
  readonly from: Progress;
  readonly keep: ((progress: Progress) => Promise<void>) | undefined;
  readonly size: number | undefined;
  readonly name: string;
  readonly begun: string | undefined;
}

async function importAll(
  { file, from, keep, size, name, begun }: Imported,
  options: SendFileOptions,
  context: RunContext,
): Promise<ExitCode> {
  let client: Client;
  let rejects: Rejects;
  let say = (line: string) => {
    context.err.write(`millrace: ${line}\n`);
  };
  try {
    client = clientFor(options);
    rejects =
      options.rejects === undefined
        ? shownRejects((line) => say(line))
        : keptRejects(options.rejects, from.rejects);
  } catch (error) {
    return wrong(context, messageOf(error));
  }
  if (begun !== undefined) say(begun);
  const tools = { client, clock: systemClock, file, name, keep, rejects };
  const running = new FileImport(tools, from);
  const display = new ImportDisplay(context, systemClock, () => ({ ...running.progress, size }));
  say = (line) => display.say(line);
  void context.stopping.then(() => {
    if (running.halt('stopped')) say('stopping: what is under way has ten seconds.');
  });
  const startedAt = performance.now();
  const halted = await running.run();
  const why = (running.isUnanswered ? await whyUnreachable(options.endpoint) : undefined) ?? halted;
  display.stop();
  rejects.close();
  return report({ why, from, to: running.progress, took: performance.now() - startedAt }, options, context);
}

function clientFor({ endpoint, writeKey }: Pick<ImportIdentity, 'endpoint' | 'writeKey'>): Client {
  return new Client(writeKey, {
    ...{
      endpoint: importEndpoint(endpoint),
      flushAt: BATCH,
      uploads: UPLOADS,
      maxCalls: MOST_CALLS,
      closeTimeout: PATIENCE_MS,
      // The times in the file come from other clocks than this machine's.
      correctClock: false,
      logger: () => {},
    },
  });
}

/**
 * Where the client library would send batches to: to the server, or to its path for them, also behind a
 * prefix.
 */
const BATCH_PATH = /(?:^\/|\/v1\/(?:batch|b|import)\/?)$/;

/**
 * The path where the address of this machine is taken for that of no call: the calls of a file come from
 * elsewhere.
 */
function importEndpoint(endpoint: string): string {
  if (!URL.canParse(endpoint)) return endpoint;
  const url = new URL(endpoint);
  url.pathname = url.pathname.replace(BATCH_PATH, '/v1/imported');
  return url.href;
}

interface Outcome {
  readonly why: string | undefined;
  readonly from: Progress;
  readonly to: Progress;
  readonly took: number;
}

function report({ why, from, to, took }: Outcome, options: SendFileOptions, context: RunContext): ExitCode {
  const [calls, refused] = [to.accepted - from.accepted, to.refused - from.refused];
  const speed = count(Math.round((calls + refused) / (took / 1000)));
  const before =
    from.line === 0 ? '' : `; ${count(to.accepted)} and ${count(to.refused)} with those of earlier runs`;
  context.out.write(
    `${count(calls)} calls accepted, ${count(refused)} lines refused, in ${span(took)} (${speed}/s)${before}\n`,
  );
  if (to.refused > 0 && options.rejects !== undefined) {
    context.err.write(`millrace: what was refused is in ${options.rejects}.\n`);
  }
  if (why !== undefined) {
    const done = to.line === 0 ? 'nothing is settled' : `everything up to line ${count(to.line)} is settled`;
    const again =
      options.file === STANDARD_INPUT ? 'send what is behind it' : 'the same command goes on behind it';
    context.err.write(`millrace: ${why.replace(/\.$/, '')}; ${done}, and ${again}.\n`);
  }
  return why === undefined && to.refused === 0 ? 0 : 1;
}

function wrong(context: RunContext, message: string): ExitCode {
  context.err.write(`millrace: ${message}.\n`);
  return 2;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
