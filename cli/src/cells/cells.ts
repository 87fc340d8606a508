import { readFileSync } from 'node:fs';
import { type CellsFile, ConfigError, readCells } from '@millrace/server/config';
import { visible } from '@millrace/server/visible-text';
import type { AskedFor } from '../answered.ts';
import { readSettingsFile } from '../configuration.ts';
import {
  askControl,
  type ControlAddress,
  type ControlProblem,
  exitCodeOf,
  WHERE_TOKENS_ARE,
} from '../control-api.ts';
import type { Surroundings } from '../surroundings.ts';

/** Options of every verb that asks all cells. */
export interface CellsFlags {
  /** The file that names them. */
  readonly cells?: string;
  readonly json?: boolean;
}

/** One of the Millraces that together are an installation. */
export interface InstallationCell {
  readonly name: string;
  readonly address: ControlAddress;
}

/** What a cell answered, or why there is no answer, as a line for the person at the terminal. */
export type CellReply<Value> = { readonly cell: string; readonly value: Value } | UnansweredCell;

interface UnansweredCell {
  readonly cell: string;
  readonly error: string;
  readonly code: 1 | 2;
  /** The cell's own answer, if it is one. */
  readonly problem?: ControlProblem;
}

/** Reads which cells there are. Undefined, with the reasons on stderr, when that cannot be said. */
export function cellsOf(flags: CellsFlags, place: Surroundings): readonly InstallationCell[] | undefined {
  const [path, namedBy] =
    flags.cells === undefined ? [place.env['MILLRACE_CELLS'], 'MILLRACE_CELLS'] : [flags.cells, '--cells'];
  if (!path) {
    place.err.write('millrace: name the file of your cells with --cells or MILLRACE_CELLS.\n');
    return undefined;
  }
  const file = readSettingsFile({ path, namedBy }, 'the file of cells', place);
  if (file === undefined) return undefined;
  try {
    const written = readCells(file, place.env);
    const read = written.cells.map((_, nth) => cellAt(nth, written, path));
    const problems = read.flatMap((one) => ('address' in one ? [] : [one]));
    if (problems.length > 0) throw new ConfigError(problems);
    return read.flatMap((one) => ('address' in one ? [one] : []));
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    place.err.write(`millrace: these cells cannot be asked:\n${error.message}\n`);
    return undefined;
  }
}

/** The token is only ever in the address of its own cell. A problem where the file of the token has none. */
function cellAt(
  nth: number,
  { cells, problemAt }: CellsFile,
  path: string,
): InstallationCell | ReturnType<CellsFile['problemAt']> {
  const { name, url, token, tokenFile } = cells[nth]!;
  const advice = {
    url: `correct its url in ${path}`,
    token: `${WHERE_TOKENS_ARE}; correct it in ${tokenFile ?? path}`,
  };
  const address = { url: new URL(url), advice };
  if (tokenFile === undefined) return { name, address: { ...address, token, tokenFrom: path } };
  const read = tokenIn(tokenFile);
  if ('message' in read) return problemAt(`cells[${nth}].tokenFile`, read.message);
  return { name, address: { ...address, token: read.token, tokenFrom: tokenFile } };
}

function tokenIn(file: string): { readonly token: string } | { readonly message: string } {
  try {
    const token = readFileSync(file, 'utf8').trim();
    if (/^[!-~]+$/.test(token)) return { token };
    return { message: `names ${file}, which must hold the token alone: one word of visible ASCII` };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    const reason = code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})`;
    return { message: `names ${file}, which ${reason}` };
  }
}

/** How to read an answer. */
export interface Reading<Value> {
  /** What the answer is about, for a sentence. */
  readonly what: string;
  /** Returns undefined, or throws, for the answer of another version or program. */
  read(answer: unknown): Value | undefined;
}

/** Asks one cell. Never rejects: whatever one cell says, the others are shown. */
export async function askCell<Value>(
  { name: cell, address }: InstallationCell,
  { path, ...request }: AskedFor,
  { what, read }: Reading<Value>,
): Promise<CellReply<Value>> {
  const reply = await askControl(address, path, request);
  if (reply.kind === 'failed') {
    const { message: error, problem } = reply;
    return { cell, error, code: exitCodeOf(reply), ...(problem === undefined ? {} : { problem }) };
  }
  const value = readOrNothing(read, reply.value);
  if (value !== undefined) return { cell, value };
  const error = `the server at ${address.url.origin} speaks of ${what} in another way: is it of this version?`;
  return { cell, error, code: 1 };
}

/** Readings check only what they need: an answer without it makes them throw. */
function readOrNothing<Value>(
  read: (answer: unknown) => Value | undefined,
  answer: unknown,
): Value | undefined {
  try {
    return read(answer);
  } catch {
    return undefined;
  }
}

export function isUnanswered<Value>(reply: CellReply<Value>): reply is UnansweredCell {
  return 'error' in reply;
}

/** `east and west`. */
export function namesOf(cells: readonly string[]): string {
  const names = cells.map(visible);
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
}
