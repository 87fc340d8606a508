/** Names of records of one kind: each is given once. */
export class Names {
  readonly #taken: Set<string>;
  /** The number to try next for each name that was taken, so that a thousand of one name cost no more. */
  readonly #next = new Map<string, number>();

  /** `reserved`: names that no record may have. */
  constructor(reserved: Iterable<string>) {
    this.#taken = new Set(reserved);
  }

  /** The first name that can be had, else the first one with a number. */
  give(...wanted: readonly string[]): string {
    const usable = wanted.map(usableName).filter((name) => name !== '');
    const free = usable.find((name) => !this.#taken.has(name));
    const name = free ?? this.#numbered(usable.at(-1) ?? 'unnamed');
    this.#taken.add(name);
    return name;
  }

  #numbered(name: string): string {
    for (let number = this.#next.get(name) ?? 2; ; number++) {
      const numbered = `${cut(name, MAX_LENGTH - 1 - String(number).length)} ${number}`;
      if (this.#taken.has(numbered)) continue;
      this.#next.set(name, number + 1);
      return numbered;
    }
  }
}

const MAX_LENGTH = 100;

/** A name as records may have one; empty where nothing is left of it. */
function usableName(name: string): string {
  const clean = name
    .slice(0, MAX_LENGTH * 10)
    .replace(/[\p{Cc}\p{Zl}\p{Zp}\ufeff]+/gu, ' ')
    .toWellFormed()
    .replaceAll('\ufffd', '?')
    .trim();
  const short = cut(clean, MAX_LENGTH);
  return /^\.{1,2}$/.test(short) ? '' : short;
}

/** At most so many characters, and never half of one. */
function cut(text: string, length: number): string {
  if (text.length <= length) return text;
  const characters = [...text.slice(0, length * 2)].slice(0, length).join('');
  return characters.trim();
}

/** Names of variables of the environment: each is given once. */
export class Variables {
  readonly #names = new Names([]);

  /** `Partner`, `SECRET` → `PARTNER_SECRET` */
  give(name: string, what: string): string {
    const word = name
      .normalize('NFKD')
      .replace(/\p{M}/gu, '')
      .toUpperCase()
      .replace(/[^A-Z0-9]+/g, '_')
      .replace(/^_|_$/g, '');
    const plain = `${word === '' ? 'RECORD' : word}_${what}`;
    return this.#names.give(/^[0-9]/.test(plain) ? `_${plain}` : plain).replace(' ', '_');
  }
}
