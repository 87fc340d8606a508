import { readFileSync, statSync } from 'node:fs';
import { type CellsFile, ConfigError, type ConfigProblem, readCells } from '@millrace/server/config';
import { visible } from '@millrace/server/visible-text';
import type { AskedFor } from '../answered.ts';
import { readSettingsFile } from '../configuration.ts';
import {
  askControl,
  type ControlAddress,
  type ControlProblem,
  distrustOfToken,
  exitCodeOf,
  WHERE_TOKENS_ARE,
} from '../control-api.ts';
import { sentences } from '../notices.ts';
import type { Surroundings } from '../surroundings.ts';

/** Options of every verb that asks all cells. */
export interface CellsFlags {
  /** The file that names them. */
  readonly cells?: string;
  readonly json?: boolean;
}

/** One of the Millraces that together are an installation, as the file names it. */
export interface InstallationCell {
  readonly name: string;
  readonly address: ControlAddress;
}

/** The answer of a cell, or the reason why there is none, as a line for the person at the terminal. */
export type CellReply<Value> = { readonly cell: string; readonly value: Value } | UnansweredCell;

export interface UnansweredCell {
  readonly cell: string;
  readonly error: string;
  readonly code: 1 | 2;
  /** The cell's own answer, if it is one. */
  readonly problem?: ControlProblem;
}

/** The cells of a file, and the file for problems with them. */
export interface NamedCells {
  readonly cells: readonly InstallationCell[];
  readonly file: CellsFile;
}

/** Reads which cells there are. Undefined, with the reasons on stderr, when that cannot be said. */
export function cellsOf(flags: CellsFlags, place: Surroundings): NamedCells | undefined {
  const [path, namedBy] =
    flags.cells === undefined ? [place.env['MILLRACE_CELLS'], 'MILLRACE_CELLS'] : [flags.cells, '--cells'];
  if (!path) {
    place.err.write('millrace: name the file of your cells with --cells or MILLRACE_CELLS.\n');
    return undefined;
  }
  const text = readSettingsFile({ path, namedBy }, 'the file of cells', sentences(place.err));
  if (text === undefined) return undefined;
  try {
    const file = readCells(text, place.env);
    if (file.hasTokens) warnOfReaders(path, place);
    return { file, cells: cellsIn(file, path) };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    refuseCells(error, place);
    return undefined;
  }
}

export function refuseCells({ message }: ConfigError, { err }: Surroundings): void {
  err.write(`millrace: these cells cannot be asked:\n${message}\n`);
}

/** Read by the group, read by others. */
const READ_BY_OTHERS = 0o044;

function warnOfReaders(path: string, { err }: Surroundings): void {
  if ((statSync(path).mode & READ_BY_OTHERS) === 0) return;
  err.write(
    `millrace: other users of this machine may read the tokens in ${visible(path)}: make it yours alone (chmod 600), or take the ` +
      'tokens from the environment or from files of their own (tokenFile).\n',
  );
}

/** The token is only ever in the address of its own cell. Throws a `ConfigError` where the file of a token has none. */
function cellsIn({ cells, problemAt }: CellsFile, path: string): InstallationCell[] {
  const problems: ConfigProblem[] = [];
  const named = cells.map(({ name, url, token, tokenFile }, nth) => {
    const read: FoundToken = tokenFile === undefined ? { token } : tokenIn(tokenFile);
    if (read.problem !== undefined) problems.push(problemAt(`cells[${nth}].tokenFile`, read.problem));
    const tokenFrom = tokenFile ?? path;
    const advice = {
      url: `correct its url in ${path}`,
      token: `${WHERE_TOKENS_ARE}; correct it in ${tokenFrom}`,
    };
    return { name, address: { url: new URL(url), token: read.token, tokenFrom, advice } };
  });
  if (problems.length > 0) throw new ConfigError(problems);
  return named;
}

interface FoundToken {
  readonly token?: string | undefined;
  /** Why there is none. */
  readonly problem?: string;
}

function tokenIn(file: string): FoundToken {
  try {
    const problem = distrustOfToken(file);
    if (problem !== undefined) return { problem: `names ${file}, which ${problem}` };
    const token = readFileSync(file, 'utf8').trim();
    if (/^[!-~]+$/.test(token)) return { token };
    return { problem: `names ${file}, which must hold the token alone: one word of visible ASCII` };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    const reason = code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})`;
    return { problem: `names ${file}, which ${reason}` };
  }
}

/** How to read an answer. */
export interface Reading<Value> {
  /** The subject of the answer, for a sentence. */
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

/** Says on stderr why cells could not be asked. */
export function reportUnanswered(replies: readonly CellReply<unknown>[], { err }: Surroundings): void {
  for (const { cell, error } of replies.filter(isUnanswered))
    err.write(`millrace: ${visible(cell)} could not be asked: ${error}.\n`);
}
