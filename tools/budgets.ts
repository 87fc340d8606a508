/**
 * Budgets that neither the linter nor the compiler knows: the length and the name of a file, and whether the
 * relative links of the documents lead anywhere. Looks at every file git knows or would add.
 *
 *   node tools/budgets.ts      prints one line per breach, exit code 1 if there is one
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const MOST_LINES = 600;
/** A file that is longer on purpose has these words in its header comment; the reason follows. */
const EXCUSE = 'over 600 lines because';
const SOURCE = /\.(ts|tsx|js|mjs|go|sql)$/;
/** Tests may be long: they are read one sentence at a time. */
const TEST = /(^|\/)(test|testdata|fixtures)\/|\.test\.tsx?$|_test\.go$/;
/** Names of files and folders that do not say what is inside. */
const NAMELESS = /^(utils?|helpers?|common|managers?|handlers?|engines?|base|core|misc)(\.|$)/i;

interface TextFile {
  /** From the root, with slashes. */
  readonly path: string;
  readonly text: string;
}

/** A source file over the limit whose header does not say why. */
export function tooLong({ path, text }: TextFile): string[] {
  if (!SOURCE.test(path) || TEST.test(path)) return [];
  const lines = text.split('\n').length - (text.endsWith('\n') ? 1 : 0);
  if (lines <= MOST_LINES || header(text).includes(EXCUSE)) return [];
  return [`${path}: ${lines} lines, at most ${MOST_LINES} (or a header comment with "${EXCUSE} …")`];
}

/** The leading comments of a file as one line: the excuse may be wrapped. */
function header(text: string): string {
  const comments = /^(#!.*\n)?(\s|\/\*[\s\S]*?\*\/|(\/\/|--).*(\n|$))*/.exec(text)?.[0] ?? '';
  return comments.replaceAll(/\s+(\*|\/\/|--)?\s*/g, ' ');
}

/** A file or folder whose name could stand on anything. */
export function nameless({ path }: TextFile): string[] {
  const part = path.split('/').find((name) => NAMELESS.test(name));
  return part === undefined ? [] : [`${path}: "${part}" does not say what is inside`];
}

/**
 * Relative links of a Markdown document that lead to no file or folder. Links within the page, to other
 * sites, and anything inside code are not looked at.
 */
export function deadLinks({ path, text }: TextFile, exists: (path: string) => boolean): string[] {
  if (!path.endsWith('.md')) return [];
  const prose = text.replaceAll(/^(```|~~~)[\s\S]*?^\1.*$/gm, '').replaceAll(/(`+)[^`][\s\S]*?\1/g, '');
  const links = [
    ...prose.matchAll(/\]\(\s*<?([^)\s>]+)/g),
    ...prose.matchAll(/^\s*\[[^\]]+\]:\s*<?([^\s>]+)/gm),
    ...prose.matchAll(/\b(?:src|href)="([^"]+)"/g),
  ];
  return links.flatMap(([, target = '']) => {
    if (/^([a-z][a-z0-9+.-]*:|\/\/|#)/i.test(target)) return [];
    const file = target.replace(/\/?([?#].*)?$/s, '').replaceAll('%20', ' ');
    const place = file.startsWith('/') ? file.slice(1) : join(dirname(path), file);
    return exists(place) ? [] : [`${path}: the link to ${target} leads nowhere`];
  });
}

function breaches(root: string): string[] {
  const listed = ['ls-files', '--cached', '--others', '--exclude-standard', '-z'];
  const paths = execFileSync('git', listed, { cwd: root, encoding: 'utf8' }).split('\0').filter(Boolean);
  const exists = (path: string): boolean => existsSync(join(root, path));
  return paths.filter(exists).flatMap((path) => {
    // Only these are read as text: anything else may be large or binary.
    const text = SOURCE.test(path) || path.endsWith('.md') ? readFileSync(join(root, path), 'utf8') : '';
    const file = { path, text };
    return [...tooLong(file), ...nameless(file), ...deadLinks(file, exists)];
  });
}

if (import.meta.main) {
  const found = breaches(fileURLToPath(new URL('..', import.meta.url)));
  for (const breach of found) console.error(breach);
  process.exitCode = found.length === 0 ? 0 : 1;
}
