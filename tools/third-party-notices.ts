/**
 * The names and licences of what others wrote and Millrace ships: the packages that a program of it loads,
 * and those whose code or files are part of what a build made. Licences ask for that wherever a copy goes.
 */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license?: string;
  readonly author?: string | { readonly name: string };
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** Files in which packages keep the words of their licence, and what it wants said of them. */
const LICENCE_FILES = '{LICENSE,LICENCE,COPYING,NOTICE,license,licence}{,.*,-*}';

const manifestOf = (folder: string) =>
  JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;

/**
 * The folders of these packages and of all that they need, as Node finds them from `folder`. Optional ones
 * may be missing.
 */
export function closureOf(names: readonly string[], folder: string): Set<string> {
  const found = new Set<string>();
  const open = names.map((name) => foundFrom(folder, name));
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (found.has(next)) continue;
    found.add(next);
    const { dependencies = {}, optionalDependencies = {} } = manifestOf(next);
    for (const name of Object.keys(dependencies)) {
      if (!(name in optionalDependencies) || isThere(next, name)) open.push(foundFrom(next, name));
    }
  }
  return found;
}

function foundFrom(folder: string, name: string): string {
  for (let at = folder; ; at = dirname(at)) {
    const place = join(at, 'node_modules', name);
    if (existsSync(join(place, 'package.json'))) return place;
    if (at === dirname(at)) throw new Error(`${name} is not installed where ${folder} looks for it`);
  }
}

function isThere(folder: string, name: string): boolean {
  try {
    return foundFrom(folder, name) !== '';
  } catch {
    return false;
  }
}

/** The folder of the package that a file belongs to; undefined for a file of ours. */
export function packageAround(file: string): string | undefined {
  return /^.*[/\\]node_modules[/\\](?:@[^/\\]+[/\\])?[^/\\]+/.exec(file)?.[0];
}

/**
 * The text of the notices, by the names of the packages. Of MIT the words are known where a package has left
 * them out; one without the words of another licence is an error, because nobody may ship it like that.
 */
export function noticesOf(folders: Iterable<string>): string {
  const notices = [...new Set(folders)].map(noticeOf).sort((one, other) => (one < other ? -1 : 1));
  return `Millrace contains the following software of others.\n\n${[...new Set(notices)].join('\n')}`;
}

const LINE = `${'-'.repeat(80)}\n`;

function noticeOf(folder: string): string {
  const { name, version, license, author = '' } = manifestOf(folder);
  const texts = globSync(LICENCE_FILES, { cwd: folder })
    .sort()
    .map((file) => readFileSync(join(folder, file), 'utf8').replaceAll('\r\n', '\n').trim());
  if (texts.length === 0 && license === 'MIT')
    texts.push(`Copyright (c) ${typeof author === 'string' ? author : author.name}\n\n${MIT}`);
  if (texts.length === 0) throw new Error(`${name} in ${folder} has no words of its licence`);
  return `${LINE}${name} ${version}\n${license ?? ''}\n${LINE}\n${texts.join('\n\n')}\n`;
}

const MIT = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the
"Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish,
distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to
the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF
MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY
CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE
SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`;
