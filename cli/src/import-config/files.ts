import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { formatConfig, readRecords } from '@millrace/server/config';
import { counted } from '../column.ts';
import { PRODUCT } from './product.ts';
import type { Translated } from './translate.ts';

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
  const files: WrittenFile[] = [];
  const parts = partsOf(translated.records);
  for (const [nth, records] of parts.entries()) {
    const path = nth === 0 ? output : `${base}.${nth + 1}.yaml`;
    const end = nth === parts.length - 1 ? translated.remarks.end : [];
    const text = formatConfig(records, {
      before: translated.remarks.before,
      end: end.length === 0 ? [] : ['', 'Kept for later, because nothing is made of it yet:', ...end],
      heading: headingOf(translated, nth, parts.length),
    });
    readRecords({ path, text }, standIns(translated));
    const { sources, destinations, audiences, traits } = records;
    const counts = { sources, destinations, audiences, traits };
    const what = Object.entries(counts).map(([kind, list]) => `${kind} ${list.length}`);
    files.push({ path, text, what: what.join(', '), command: `millrace plan -f ${quoted(path)}` });
  }
  for (const [nth, { ids, isAnonymous }] of translated.suppressed.entries()) {
    const path = `${base}.suppressed${nth === 0 ? '' : `.${nth + 1}`}.txt`;
    files.push({
      path,
      text: ids.map((id) => `${JSON.stringify(id)}\n`).join(''),
      what: `${counted(ids.length, isAnonymous ? 'visitor' : 'user')} to suppress before any history is imported`,
      command: `millrace suppress --json-ids${isAnonymous ? ' --anonymous' : ''} --file ${quoted(path)}`,
    });
  }
  if (translated.trackingPlans.length > 0)
    files.push({
      path: `${base}.tracking-plans.json`,
      text: `${JSON.stringify(translated.trackingPlans, undefined, 2)}\n`,
      what: `${counted(translated.trackingPlans.length, 'tracking plan')}, kept as they are`,
    });
  return files;
}

type Records = Translated['records'];

/** As many files as there must be; each is applied after the one before, so sources come first. */
function partsOf({ sources, destinations, audiences, traits }: Records): Records[] {
  const [first = [], ...moreSources] = chunks(sources);
  const moreDestinations = chunks(destinations);
  const parts = [first, ...moreSources].map((some): Records => ({ ...NONE, sources: some }));
  const last = parts.pop()!;
  parts.push({ ...last, destinations: moreDestinations.shift() ?? [], audiences, traits });
  return [...parts, ...moreDestinations.map((some): Records => ({ ...NONE, destinations: some }))];
}

const NONE: Records = { sources: [], destinations: [], audiences: [], traits: [] };

function chunks<Of>(list: readonly Of[]): (readonly Of[])[] {
  const found: (readonly Of[])[] = [];
  for (let from = 0; from < list.length; from += PRODUCT.maxRecords)
    found.push(list.slice(from, from + PRODUCT.maxRecords));
  return found;
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
