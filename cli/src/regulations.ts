import { createReadStream } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { type AskedFor, answered } from './answered.ts';
import { count, printable } from './column.ts';
import type { ControlFlags } from './control-api.ts';
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

/** The answer of `regulations`, as far as it is shown. */
interface ShownRegulation {
  readonly id: string;
  readonly type: string;
  readonly overallStatus: string;
  readonly createdAt: string;
  readonly erasedAt?: string;
  readonly finishedAt?: string;
  readonly by: string;
  readonly subjects: number;
  readonly erased: { readonly events: number; readonly deliveries: number; readonly deadLetters: number };
  readonly profiles?: number;
  readonly streamStatus: readonly {
    readonly source: string;
    readonly destination: string;
    readonly endpoint: string;
    readonly status: string;
    readonly sent: number;
    readonly confirmed: number;
    readonly confirmedAt?: string;
    readonly answer?: { readonly status?: number; readonly reason?: string };
  }[];
  readonly reason?: string;
}

/** Milliseconds between two requests for the receipt. */
const EVERY = 250;

/** `millrace delete-user`, `suppress` and `unsuppress`: make a regulation, of as many as the server takes at once. */
export async function regulate(options: RegulateOptions, place: Surroundings): Promise<ExitCode> {
  const { type, file } = options;
  const read = file === undefined ? [] : await idsIn(file, place);
  if (read === undefined) return 2;
  const subjectIds = [...new Set([...options.ids, ...read])];
  if (subjectIds.length === 0) {
    place.err.write('millrace: name at least one userId, or a file of them with --file.\n');
    return 2;
  }
  const made = await asked(options, place, {
    path: 'regulations',
    method: 'POST',
    body: { type, subjectIds },
  });
  if (typeof made === 'number') return made;
  return await shown(made, options, place);
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

function receiptOf(id: string): AskedFor {
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
  place.out.write(options.json === true ? `${now.text}\n` : `${linesOf(now.value).join('\n')}\n`);
  return ['PARTIAL_SUCCESS', 'FAILED'].includes(now.value.overallStatus) ? 1 : 0;
}

/** The receipt as an auditor reads it: who asked for what and when, what is gone, and who has confirmed it when. */
function linesOf(shown: ShownRegulation): string[] {
  const { id, type, overallStatus, createdAt, erasedAt, finishedAt, by } = shown;
  const { subjects, streamStatus, reason } = shown;
  const isErasing = type === 'DELETE_ONLY' || type === 'SUPPRESS_WITH_DELETE';
  return [
    `${id}  ${type} of ${counted(subjects, 'user')}: ${overallStatus}${reason === undefined ? '' : ` (${reason})`}`,
    `  asked for: ${createdAt} by ${printable(by)}`,
    ...(finishedAt === undefined ? [] : [`  ended: ${finishedAt}`]),
    ...(isErasing ? [`  erased: ${erasedText(shown)}`] : []),
    ...(erasedAt === undefined ? [] : [`  gone from the files: ${erasedAt}`]),
    ...streamStatus.map(({ source, destination, endpoint, status, sent, confirmed, confirmedAt, answer }) => {
      const when = confirmedAt === undefined ? '' : `, the last at ${confirmedAt}`;
      const why = answer?.reason === undefined ? '' : `, last answer ${printable(answer.reason)}`;
      const names = [source, destination, endpoint].map(printable).join(' → ');
      return `  ${names}: ${status}, ${count(confirmed)} of ${count(sent)} confirmed${when}${why}`;
    }),
  ];
}

function erasedText({ erased: { events, deliveries, deadLetters }, profiles }: ShownRegulation): string {
  return [
    counted(events, 'event'),
    deliveries === 1 ? '1 delivery' : `${count(deliveries)} deliveries`,
    counted(deadLetters, 'dead letter'),
    ...(profiles === undefined ? [] : [counted(profiles, 'profile')]),
  ].join(', ');
}

function counted(n: number, noun: string): string {
  return `${count(n)} ${noun}${n === 1 ? '' : 's'}`;
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

/** Checks only enough to recognise another version. */
function isRegulation(value: unknown): value is ShownRegulation {
  return typeof value === 'object' && value !== null && 'streamStatus' in value && 'erased' in value;
}
