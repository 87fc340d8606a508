import { type FileHandle, open } from 'node:fs/promises';
import { Client } from '@millrace/client';
import { systemClock } from './clock.ts';
import { count, span } from './column.ts';
import { FileImport } from './file-import.ts';
import { ImportDisplay } from './import-display.ts';
import { type ImportIdentity, type Progress, readProgress } from './import-progress.ts';
import { keptRejects, type Rejects, shownRejects } from './rejects.ts';
import type { ExitCode, Surroundings } from './surroundings.ts';
import { whyUnreachable } from './unreachable.ts';

export interface SendFileOptions {
  readonly file: string;
  readonly writeKey: string;
  readonly endpoint: string;
  /** Where to keep the progress; beside the file when absent. */
  readonly progress?: string | undefined;
  /** Where to keep what was refused; shown on stderr when absent. */
  readonly rejects?: string | undefined;
}

/** Calls of one request; half a megabyte of calls is the other bound. */
const BATCH = 500;
const UPLOADS = 4;
/** Under way and waiting behind it; more would only take memory. */
const MOST_CALLS = 4 * UPLOADS * BATCH;
/** Somebody who presses Ctrl-C waits no longer for what is under way. */
const PATIENCE_MS = 10_000;

/**
 * `millrace send --file events.ndjson`: the calls of a file, one JSON object a line. Goes on where an earlier run ended. Ends
 * with 1 when a line was refused or not all are settled. contract.md section 1.
 */
export async function sendFile(options: SendFileOptions, place: Surroundings): Promise<ExitCode> {
  let file: FileHandle;
  try {
    file = await open(options.file);
  } catch (error) {
    return wrong(place, `${options.file} cannot be read: ${messageOf(error)}`);
  }
  try {
    return await importFrom(file, options, place);
  } finally {
    await file.close();
  }
}

async function importFrom(
  file: FileHandle,
  options: SendFileOptions,
  place: Surroundings,
): Promise<ExitCode> {
  const { file: path, endpoint, writeKey } = options;
  const stat = await file.stat();
  if (!stat.isFile()) return wrong(place, `${path} is no file: an import needs one it can go on with`);
  const identity = { path, endpoint, writeKey };
  const progressPath = options.progress ?? `${path}.progress`;
  const from = await readProgress(progressPath, identity, file);
  if (typeof from === 'string') return wrong(place, from);
  let client: Client;
  let rejects: Rejects;
  let say = (line: string) => {
    place.err.write(`millrace: ${line}\n`);
  };
  try {
    client = clientFor(identity);
    rejects =
      options.rejects === undefined
        ? shownRejects((line) => say(line))
        : keptRejects(options.rejects, from.rejects);
  } catch (error) {
    return wrong(place, messageOf(error));
  }
  if (from.line > 0) say(`${path} goes on at line ${count(from.line + 1)}, as ${progressPath} says.`);
  const tools = { client, clock: systemClock, file, identity, progressPath, rejects };
  const running = new FileImport(tools, from);
  const { size } = stat;
  const display = new ImportDisplay(place, systemClock, () => ({ ...running.progress, size }));
  say = (line) => display.say(line);
  void place.stopping.then(() => {
    if (running.halt('stopped')) say('stopping: what is under way has ten seconds.');
  });
  const startedAt = performance.now();
  const halted = await running.run();
  const why = (running.isUnanswered ? await whyUnreachable(endpoint) : undefined) ?? halted;
  display.stop();
  rejects.close();
  return report({ why, from, to: running.progress, took: performance.now() - startedAt }, options, place);
}

function clientFor({ endpoint, writeKey }: ImportIdentity): Client {
  return new Client(writeKey, {
    ...{
      endpoint,
      flushAt: BATCH,
      uploads: UPLOADS,
      maxCalls: MOST_CALLS,
      closeTimeout: PATIENCE_MS,
      // The times in the file are those of other clocks than this machine's.
      correctClock: false,
      logger: () => {},
    },
  });
}

interface Outcome {
  readonly why: string | undefined;
  readonly from: Progress;
  readonly to: Progress;
  readonly took: number;
}

function report({ why, from, to, took }: Outcome, options: SendFileOptions, place: Surroundings): ExitCode {
  const [calls, refused] = [to.accepted - from.accepted, to.refused - from.refused];
  const speed = count(Math.round((calls + refused) / (took / 1000)));
  const before =
    from.line === 0 ? '' : `; ${count(to.accepted)} and ${count(to.refused)} with those of earlier runs`;
  place.out.write(
    `${count(calls)} calls accepted, ${count(refused)} lines refused, in ${span(took)} (${speed}/s)${before}\n`,
  );
  if (to.refused > 0 && options.rejects !== undefined) {
    place.err.write(`millrace: what was refused is in ${options.rejects}.\n`);
  }
  if (why !== undefined) {
    const done = to.line === 0 ? 'nothing is settled' : `everything up to line ${count(to.line)} is settled`;
    place.err.write(
      `millrace: ${why.replace(/\.$/, '')}; ${done}, and the same command goes on behind it.\n`,
    );
  }
  return why === undefined && to.refused === 0 ? 0 : 1;
}

function wrong(place: Surroundings, message: string): ExitCode {
  place.err.write(`millrace: ${message}.\n`);
  return 2;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
