import { resolve } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { count } from './column.ts';
import {
  type ControlAddress,
  type ControlFlags,
  controlAddress,
  postControl,
  readControl,
} from './control-api.ts';
import type { ExitCode, RunContext } from './run-context.ts';

export interface BackupOptions extends ControlFlags {
  /** The argument of the verb. */
  readonly dir: string;
  readonly json?: boolean;
}

/** The answer of `GET /api/v1/backups/{id}`. */
interface Progress {
  readonly id: string;
  readonly folder: string;
  readonly state: 'running' | 'done' | 'failed';
  readonly at: string;
  readonly written: number;
  readonly bytes: number;
  readonly events?: number;
  readonly damage?: {
    readonly events: number;
    readonly deliveries: number;
    readonly others: readonly string[];
  };
  readonly seconds: number;
  readonly reason?: string;
}

/** Milliseconds between two requests for the progress. */
const EVERY = 250;

/**
 * `millrace backup DIR`: the running server writes a copy of its data at this moment into a folder on its own
 * machine. Ends when the copy is complete and on stable storage. spec/contract.md, "Verbs that change".
 */
export async function backup({ dir, ...options }: BackupOptions, context: RunContext): Promise<ExitCode> {
  const address = controlAddress(options, context.env);
  if (typeof address === 'string') {
    context.err.write(`millrace: ${address}.\n`);
    return 2;
  }
  const ended = await made(address, resolve(dir), context);
  if (typeof ended === 'string') {
    context.err.write(`millrace: ${ended}.\n`);
    return 1;
  }
  if (options.json) context.out.write(`${JSON.stringify(ended)}\n`);
  else {
    context.out.write(
      `${count(ended.events ?? 0)} events, ${megabytes(ended.bytes)}, as they were at ${ended.at}: ${ended.folder}, ` +
        `made in ${ended.seconds.toFixed(1)} s.\n`,
    );
    if (ended.damage !== undefined) context.err.write(`millrace: ${damageText(ended.damage)}.\n`);
    context.err.write(
      `It is on the machine of ${address.url.host}, without the file admin-token. millrace restore makes a data folder of it.\n`,
    );
  }
  return 0;
}

function damageText({ events, deliveries, others }: NonNullable<Progress['damage']>): string {
  const parts = [`${count(events)} events`, `${count(deliveries)} deliveries`, ...others].join(', ');
  return `WARNING: some of it cannot be read, in the store as in the copy (${parts}): keep an older backup, and check the disk`;
}

/** Resolves to the complete backup, or to the reason why there is none. */
async function made(
  address: ControlAddress,
  folder: string,
  context: RunContext,
): Promise<Progress | string> {
  let reply = await postControl(address, 'backups', { folder });
  const isWatched = context.err.isTTY;
  let drawn = false;
  for (;;) {
    if (reply.kind === 'failed') return reply.message;
    const progress = progressIn(reply.value);
    if (progress === undefined) return `the server at ${address.url.origin} speaks of backups in another way`;
    if (progress.state !== 'running') {
      if (drawn) context.err.write('\r\u001b[K');
      return progress.state === 'done' ? progress : (progress.reason ?? 'the backup failed');
    }
    if (isWatched) {
      context.err.write(`\r\u001b[K${progressLine(progress)}`);
      drawn = true;
    }
    const stopped = await Promise.race([setTimeout(EVERY), context.stopping.then(() => true)]);
    if (stopped === true) {
      return 'not waited for its end: the server goes on with it, and says in its log how it ended';
    }
    reply = await readControl(address, `backups/${progress.id}`);
  }
}

function progressLine({ written, bytes, seconds }: Progress): string {
  const left = written > 0 ? `, ${Math.ceil((seconds * (bytes - written)) / written)} s left` : '';
  return `${megabytes(written)} of ${megabytes(bytes)}${left}`;
}

function megabytes(bytes: number): string {
  return `${count(Math.ceil(bytes / 1024 / 1024))} MB`;
}

function progressIn(value: unknown): Progress | undefined {
  const known = typeof value === 'object' && value !== null && 'state' in value && 'written' in value;
  return known ? (value as Progress) : undefined;
}
