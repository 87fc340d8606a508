import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { formatConfig, readRecords } from '@millrace/server/config';
import { counted } from '../column.ts';
import { PRODUCT } from './product.ts';
import type { Translated } from './translate.ts';
import type { ListName, WrittenRecord } from './translation.ts';

/** A file to be written, with what it is, and the command that uses it. */
export interface WrittenFile {
  readonly path: string;
  readonly text: string;
  readonly what: string;
  readonly command?: string;
}

/** Thrown before anything is written. */
export class UnwritableFile extends Error {}

/**
 * The files that come of an export: the configuration, in as many files as records need, and beside it users
 * to suppress and tracking plans. Throws a `ConfigError` where `plan` would refuse a file.
 */
export function filesOf(translated: Translated, output: string): WrittenFile[] {
  const base = output.replace(/\.ya?ml$/i, '');
  const kept = keptTexts(translated);
  const isKeptInside = kept.join('').length <= MOST_KEPT;
  const parts = partsOf(translated);
  const files = parts.map((records, nth): WrittenFile => {
    const path = nth === 0 ? output : `${base}.${nth + 1}.yaml`;
    const text = formatConfig(records, {
      before: translated.remarks.before,
      end: nth === parts.length - 1 && isKeptInside ? kept : [],
      heading: headingOf(translated, nth, parts.length),
    });
    readRecords({ path, text }, standIns(translated));
    const { sources, destinations, audiences, traits } = records;
    const counts = { sources, destinations, audiences, traits };
    const what = Object.entries(counts).map(([kind, list]) => `${kind} ${list.length}`);
    return { path, text, what: what.join(', '), command: `millrace plan -f ${quoted(path)}` };
  });
  files.push(...suppressionFiles(translated, base));
  if (!isKeptInside)
    files.push({
      path: `${base}.kept.txt`,
      text: `${kept.join('\n')}\n`,
      what: 'texts of what nothing is made of yet',
    });
  if (translated.trackingPlans.length > 0)
    files.push({
      path: `${base}.tracking-plans.json`,
      text: `${JSON.stringify(translated.trackingPlans, undefined, 2)}\n`,
      what: `${counted(translated.trackingPlans.length, 'tracking plan')}, kept as they are`,
    });
  return files;
}

/** Most characters of texts at the end of a configuration file; more get a file of their own. */
const MOST_KEPT = 250_000;

/** Most characters of a file. `plan` takes four million. */
const MOST_CHARACTERS = 3_000_000;

function keptTexts({ remarks: { end } }: Translated): readonly string[] {
  return end.length === 0 ? [] : ['', 'Kept for later, because nothing is made of it yet:', ...end];
}

function* suppressionFiles({ suppressed }: Translated, base: string): Generator<WrittenFile> {
  for (const [nth, { ids, isAnonymous }] of suppressed.entries()) {
    const path = `${base}.suppressed${nth === 0 ? '' : `.${nth + 1}`}.txt`;
    yield {
      path,
      text: ids.map((id) => `${JSON.stringify(id)}\n`).join(''),
      what: `${counted(ids.length, isAnonymous ? 'visitor' : 'user')} to suppress before any history is imported`,
      command: `millrace suppress --json-ids${isAnonymous ? ' --anonymous' : ''} --file ${quoted(path)}`,
    };
  }
}

type Records = Translated['records'];

const NONE: Records = { sources: [], destinations: [], audiences: [], traits: [] };

/**
 * As many files as there must be, because a file has at most so many records of a kind, and so many
 * characters. Each is applied after the one before, so that all that a record names is there.
 */
function partsOf({ inOrder, remarks: { before } }: Translated): Records[] {
  const parts: { records: Record<ListName, WrittenRecord[]>; length: number }[] = [];
  for (const { list, record } of inOrder) {
    const own: Records = { ...NONE, [list]: [record] };
    const { length } = formatConfig(own, { before, end: [], heading: [] });
    const last = parts.at(-1);
    const fits =
      last !== undefined &&
      last.records[list].length < PRODUCT.maxRecords &&
      last.length + length <= MOST_CHARACTERS;
    const part = fits
      ? last
      : { records: { sources: [], destinations: [], audiences: [], traits: [] }, length: 0 };
    if (!fits) parts.push(part);
    part.records[list].push(record);
    part.length += length;
  }
  return parts.length === 0 ? [NONE] : parts.map(({ records }) => records);
}

function headingOf({ report }: Translated, nth: number, parts: number): string[] {
  const variables = report.asked.filter(({ variable }) => variable !== undefined);
  const order = parts > 1 ? [`File ${nth + 1} of ${parts}: apply them in this order.`] : [];
  const wanted = variables.map(({ variable = '', text }) => `  ${variable}  ${text}`);
  return [
    'Written by `millrace import-config`; `millrace plan -f` shows what it would change.',
    'It has write keys and secrets in it: keep it where nobody else can read it.',
    ...order,
    ...(wanted.length === 0 ? [] : ['What the export does not have, by the names of variables:', ...wanted]),
  ];
}

/** An environment in which every variable of the files has a value. */
function standIns({ variables }: Translated): Readonly<Record<string, string>> {
  return Object.fromEntries(variables.map((variable, nth) => [variable, `value-${nth}`]));
}

/** Writes all files or none, readable by their owner alone. */
export function writeFiles(files: readonly WrittenFile[], force: boolean): void {
  const there = files.find(({ path }) => existsSync(path));
  if (there !== undefined && !force)
    throw new UnwritableFile(`${there.path} is there already: name another file, or replace it with --force`);
  for (const { path, text } of files) {
    try {
      if (force) rmSync(path, { force: true });
      writeFileSync(path, text, { mode: 0o600, flag: 'wx' });
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
      throw new UnwritableFile(`${path} cannot be written (${code})`);
    }
  }
}

/** A path as a shell reads it. */
function quoted(path: string): string {
  return /^[\w./@+-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
}
