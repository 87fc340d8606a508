/**
 * Checks the citations of documents in comments, tests and documents: the document is a file of this
 * repository, and it has the heading. A heading is cited by its name, `spec/specification.md, "Several
 * endpoints"`, or by its anchor, `docs/reference/delivery.md#retries`. Looks at every text file that git
 * knows or would add. Checks also what tests quote (quotations.ts).
 *
 *   node tools/citations.ts      prints one line per wrong citation, exit code 1 if there is one
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type TextFile, wrongQuotations } from './quotations.ts';

/** One document that a file names, and the heading if one is cited. */
interface Citation {
  /** Line of the document's name, from 1. */
  readonly line: number;
  /** As it is written; empty for a link within the page. */
  readonly document: string;
  /** One of these at most. A section number is never right: headings have names. */
  readonly heading?: string;
  readonly anchor?: string;
  readonly section?: string;
}

/** Tests of tools make up their documents. Lock files and licences name those of others. */
const NOT_LOOKED_AT = /^tools\/.*\.test\.ts$|(^|\/)(package-lock\.json|go\.sum|LICENSE)$/;

/** A line break, with the mark of the comment that goes on behind it. */
const WRAP = /[ \t\r]*\n[ \t]*(?:\*(?!\/)|\/\/+|#+(?= )|--|>)?[ \t]*/g;

/**
 * A space below may be a line break: a sentence may be wrapped. An empty line is two of them, so no citation
 * crosses it.
 */
const NAME = String.raw`\\?"[^"\\]+\\?"`;
const CITATION = pattern(
  String.raw`(?<document>[\w.@~:/%-]*[\w-]\.md)(?![\w-])(?!\.\w)`,
  String.raw`(?:#(?<anchor>[\p{L}\p{N}_-]+)|${'`'}?,? (?<names>${NAME}(?:(?:, and|, or|,|;| and| or) ${NAME})*)`,
  String.raw`|${'`'}?,? sections? (?<section>\d+(?:\.\d+)*))?`,
);
const WITHIN_PAGE = /\]\(#(?<link>[^)\s]+)\)|\shref="#(?<href>[^"]+)"/g;

function pattern(...parts: readonly string[]): RegExp {
  return new RegExp(parts.join('').replaceAll(' ', String.raw`\s`), 'gu');
}

/** The citations of a file, in their order. Of a Markdown document, blocks of code are left out. */
function citationsIn({ path, text }: TextFile): Citation[] {
  const isPage = path.endsWith('.md');
  const prose = (isPage ? withoutBlocks(text) : text).replaceAll(WRAP, '\n');
  const lineAt = (index: number): number => prose.slice(0, index).split('\n').length;
  const found = [...prose.matchAll(CITATION)].flatMap(({ 0: whole, index, groups }): Citation[] => {
    const { document = '', anchor, names, section } = groups ?? {};
    // The text of a link cites nothing. In code a link belongs to a page that is made from it, and that page
    // is looked at.
    const isOfLink = isPage
      ? /^`?\]\(/.test(prose.slice(index + whole.length))
      : prose.slice(0, index).endsWith('](');
    if (isOfLink || document.includes('://')) return [];
    const place = { line: lineAt(index), document };
    if (anchor !== undefined) return [{ ...place, anchor }];
    if (section !== undefined) return [{ ...place, section }];
    if (names === undefined) return [place];
    return [...names.matchAll(/"([^"\\]+)\\?"/g)].map(([, name = '']) => ({
      ...place,
      heading: name.replaceAll('\n', ' '),
    }));
  });
  if (!isPage) return found;
  const within = [...prose.matchAll(WITHIN_PAGE)].map(({ index, groups }) => ({
    line: lineAt(index),
    document: '',
    anchor: groups?.['link'] ?? groups?.['href'] ?? '',
  }));
  return [...found, ...within].toSorted((one, other) => one.line - other.line);
}

/** Blocks of code become empty lines: the other lines keep their numbers. */
function withoutBlocks(text: string): string {
  return text.replaceAll(/^(```|~~~)[\s\S]*?^\1.*$/gm, (block) => block.replaceAll(/[^\n]/g, ''));
}

interface Heading {
  readonly name: string;
  readonly anchor: string;
}

/** The headings of a document, with their anchors as code hosts make them. */
export function headingsOf(text: string): Heading[] {
  const seen = new Map<string, number>();
  return [...withoutBlocks(text).matchAll(/^#{1,6} +(.+?)(?: +#+)?$/gm)].map(([, written = '']) => {
    const name = written.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll('`', '');
    const plain = name
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-');
    const times = seen.get(plain) ?? 0;
    seen.set(plain, times + 1);
    return { name, anchor: times === 0 ? plain : `${plain}-${times}` };
  });
}

/** One line for each citation that leads nowhere: file, line, citation, and what was probably meant. */
export function wrongCitations(files: readonly TextFile[]): string[] {
  const pages = files.filter(({ path }) => path.endsWith('.md'));
  const documents = new Map(pages.map(({ path, text }) => [path, headingsOf(text)] as const));
  return files
    .filter(({ path }) => !NOT_LOOKED_AT.test(path))
    .flatMap((file) =>
      citationsIn(file).flatMap((citation) => {
        const problem = problemOf(citation, file.path, documents);
        return problem === undefined ? [] : [`${file.path}:${citation.line}: ${problem}`];
      }),
    );
}

type Documents = ReadonlyMap<string, readonly Heading[]>;

function problemOf(citation: Citation, path: string, documents: Documents): string | undefined {
  const { document, heading, anchor, section } = citation;
  const target = document === '' ? path : targetOf(document, path, documents);
  if (target === undefined) {
    return `${shown(citation)}: no such document; nearest: ${nearestDocument(citation, documents)}`;
  }
  const headings = documents.get(target) ?? [];
  if (section !== undefined) {
    return `${shown(citation)}: headings have names and no numbers; cite one of ${target} by its name`;
  }
  if (heading !== undefined && !headings.some(({ name }) => name === heading)) {
    return `${shown(citation)}: no such heading; nearest: "${nearest(heading, headings, nameOf)?.name}"`;
  }
  if (anchor !== undefined && !headings.some((one) => one.anchor === anchor)) {
    return `${shown(citation)}: no such heading; nearest: #${nearest(anchor, headings, anchorOf)?.anchor}`;
  }
  return undefined;
}

const nameOf = ({ name }: Heading): string => name;
const anchorOf = ({ anchor }: Heading): string => anchor;

function shown({ document, heading, anchor, section }: Omit<Citation, 'line'>): string {
  if (heading !== undefined) return `${document}, "${heading}"`;
  if (anchor !== undefined) return `${document}#${anchor}`;
  return section === undefined ? document : `${document} section ${section}`;
}

/** The document as it is seen from the file's folder, or from one above it; the root is the last of them. */
function targetOf(document: string, path: string, documents: Documents): string | undefined {
  const name = document.replaceAll('%20', ' ').replace(/^\/+/, '');
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    const place = join(folder, name);
    if (documents.has(place)) return place;
    if (folder === '.') return undefined;
  }
}

/** The nearest heading of all documents for a cited heading; otherwise the document with the nearest name. */
function nearestDocument({ document, heading }: Citation, documents: Documents): string | undefined {
  if (heading === undefined) {
    const name = basename(document);
    return nearest(name, [...documents.keys()], (path) => basename(path));
  }
  const all = [...documents].flatMap(([path, headings]) =>
    headings.map(({ name }) => ({ document: path, heading: name })),
  );
  const found = nearest(heading, all, (one) => one.heading);
  return found === undefined ? undefined : shown(found);
}

/** The candidate whose text shares most pairs of letters with this one. */
function nearest<Item>(
  text: string,
  candidates: readonly Item[],
  textIn: (item: Item) => string,
): Item | undefined {
  const wanted = pairsOf(text);
  let best: Item | undefined;
  let most = -1;
  for (const candidate of candidates) {
    const pairs = pairsOf(textIn(candidate));
    const shared = [...pairs].filter((pair) => wanted.has(pair)).length;
    const score = shared / (pairs.size + wanted.size || 1);
    if (score > most) [best, most] = [candidate, score];
  }
  return best;
}

function pairsOf(text: string): Set<string> {
  const letters = text.toLowerCase();
  return new Set(Array.from(letters, (_, at) => letters.slice(at, at + 2)));
}

function textFiles(root: string): TextFile[] {
  const listed = ['ls-files', '--cached', '--others', '--exclude-standard', '-z'];
  const paths = execFileSync('git', listed, { cwd: root, encoding: 'utf8' }).split('\0').filter(Boolean);
  return paths
    .filter((path) => existsSync(join(root, path)))
    .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }))
    .filter(({ text }) => !text.includes('\0'));
}

if (import.meta.main) {
  const files = textFiles(fileURLToPath(new URL('..', import.meta.url)));
  const wrong = [...wrongCitations(files), ...wrongQuotations(files)];
  for (const line of wrong) console.error(line);
  process.exitCode = wrong.length === 0 ? 0 : 1;
}
