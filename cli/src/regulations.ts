import { createReadStream } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { type AskedFor, answered } from './answered.ts';
import type { ControlFlags } from './control-api.ts';
import { isIncomplete, isRegulation, receiptLines, type ShownRegulation } from './receipt.ts';
import { STANDARD_INPUT, textOf } from './standard-input.ts';
import type { ExitCode, Surroundings } from './surroundings.ts';

interface WaitingFlags extends ControlFlags {
  readonly json?: boolean;
  readonly wait?: boolean;
}

export interface RegulateOptions extends WaitingFlags {
  readonly type: 'DELETE_ONLY' | 'SUPPRESS_WITH_DELETE' | 'SUPPRESS_ONLY' | 'UNSUPPRESS';
  readonly ids: readonly string[];
  /** A file with more ids. */
  readonly file?: string;
}

export interface RegulationOptions extends WaitingFlags {
  readonly id: string;
}

/** Milliseconds between two requests for the receipt. */
export const EVERY = 250;

/** `millrace delete-user`, `suppress` and `unsuppress`: make a regulation, of as many as the server takes at once. */
export async function regulate(options: RegulateOptions, place: Surroundings): Promise<ExitCode> {
  const request = await regulationRequest(options, place);
  if (request === undefined) return 2;
  const made = await asked(options, place, request);
  if (typeof made === 'number') return made;
  return await shown(made, options, place);
}

/** The request that makes a regulation. Undefined, with the reason on stderr, where the options name no users. */
export async function regulationRequest(
  { type, ids, file }: Pick<RegulateOptions, 'type' | 'ids' | 'file'>,
  place: Surroundings,
): Promise<AskedFor | undefined> {
  const read = file === undefined ? [] : await idsIn(file, place);
  if (read === undefined) return undefined;
  const subjectIds = [...new Set([...ids, ...read])];
  if (subjectIds.length > 0) return { path: 'regulations', method: 'POST', body: { type, subjectIds } };
  place.err.write('millrace: name at least one userId, or a file of them with --file.\n');
  return undefined;
}

/** `millrace regulation ID`. */
export async function regulation(options: RegulationOptions, place: Surroundings): Promise<ExitCode> {
  const found = await asked(options, place, receiptOf(options.id));
  return typeof found === 'number' ? found : await shown(found, options, place);
}

interface Reply {
  readonly value: ShownRegulation;
  readonly text: string;
}

/** The request for a receipt. */
export function receiptOf(id: string): AskedFor {
  return { path: `regulations/${encodeURIComponent(id)}`, method: 'GET' };
}

async function asked(
  options: ControlFlags,
  place: Surroundings,
  request: AskedFor,
): Promise<Reply | ExitCode> {
  const reply = await answered(options, place, request);
  if (typeof reply === 'number') return reply;
  const { value, text } = reply;
  if (isRegulation(value)) return { value, text };
  place.err.write('millrace: the server speaks of regulations in another way: is it of this version?\n');
  return 1;
}

/** Shows a receipt, with `--wait` the last one. Ends with 1 when not everything was confirmed. */
async function shown(first: Reply, options: WaitingFlags, place: Surroundings): Promise<ExitCode> {
  let now = first;
  while (options.wait === true && now.value.finishedAt === undefined) {
    const stopped = await Promise.race([setTimeout(EVERY), place.stopping.then(() => true)]);
    if (stopped === true) {
      place.err.write(
        `millrace: the server goes on with it. millrace regulation ${now.value.id} shows how far it is.\n`,
      );
      return 1;
    }
    const next = await asked(options, place, receiptOf(now.value.id));
    if (typeof next === 'number') return next;
    now = next;
  }
  place.out.write(options.json === true ? `${now.text}\n` : `${receiptLines(now.value).join('\n')}\n`);
  return isIncomplete(now.value) ? 1 : 0;
}

/** The lines of a file without the blanks around them, empty ones left out. Undefined when it cannot be read. */
async function idsIn(file: string, place: Surroundings): Promise<string[] | undefined> {
  try {
    const text = await textOf(file === STANDARD_INPUT ? place.in : createReadStream(file));
    return text
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '');
  } catch (error) {
    place.err.write(`millrace: cannot read ${file}: ${(error as Error).message}.\n`);
    return undefined;
  }
}
