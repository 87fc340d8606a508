export type Environment = Readonly<Record<string, string | undefined>>;

/** Replaces references; one that cannot be replaced stays as it is and is told in `faults`. */
export function expand(
  written: string,
  env: Environment,
): { text: string; references: boolean; faults: string[] } {
  const faults: string[] = [];
  let references = false;
  const text = written.replace(/\$\$\{|\$\{([^}]*)(\}?)/g, (match, name: string | undefined, end: string) => {
    if (name === undefined) return '${';
    references = true;
    if (end === '' || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
      faults.push(`holds a reference that is not \${NAME}: write $\${ for a literal \${`);
      return match;
    }
    const value = Object.hasOwn(env, name) ? env[name] : undefined;
    if (value === undefined)
      faults.push(`reads \${${name}}, but the environment variable ${name} is not set`);
    return value ?? match;
  });
  return { text, references, faults };
}

/** Characters that stand for the braces of references while the text is parsed. */
export interface Marks {
  readonly open: string;
  readonly close: string;
}

/** Characters that Unicode sets aside for use inside a program, and those for private use. */
const SET_ASIDE: readonly (readonly [from: number, to: number])[] = [
  [0xfdd0, 0xfdef],
  [0xe000, 0xf8ff],
];

/** The first two that the file holds neither as they are nor as an escape, so that every text can stand in a file. */
export function marksFor(text: string): Marks {
  const written = new Set(
    Array.from(text.matchAll(SET_ASIDE_WRITTEN), ([, as, digits]) => as ?? escaped(digits!)),
  );
  const free: string[] = [];
  for (const [from, to] of SET_ASIDE) {
    for (let code = from; code <= to && free.length < 2; code++) {
      const character = String.fromCharCode(code);
      if (!written.has(character)) free.push(character);
    }
  }
  const [open = '\uFDD0', close = '\uFDD1'] = free;
  return { open, close };
}

/** Each of them, and whatever four digits may be the escape of one; they may overlap. */
const SET_ASIDE_WRITTEN =
  /(?=([\uFDD0-\uFDEF\uE000-\uF8FF])|(fd[de][0-9a-f]|(?:e[0-9a-f]|f[0-8])[0-9a-f]{2}))/gi;

function escaped(digits: string): string {
  return String.fromCharCode(Number.parseInt(digits, 16));
}

/**
 * Braces end a plain text inside `{…}` and `[…]`, so YAML would refuse `{ token: ${NAME} }`. Until the text is parsed
 * the braces of references are marks; lengths, and with them all positions, stay the same (but for a byte order mark,
 * which no editor counts as a column).
 */
export function masked(text: string, { open, close }: Marks): string {
  return text.replace(/^\uFEFF/, '').replace(/\$\{([^\s{}]*)\}/g, `$$${open}$1${close}`);
}

export function unmasked(text: string, { open, close }: Marks): string {
  return text.replaceAll(open, '{').replaceAll(close, '}');
}
