import type { Described } from './document.ts';

/** As in a `Plan`. */
interface Filled {
  readonly names?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
}

/** Path and query of a request of this operation. */
export function targetOf({ path }: Pick<Described, 'path'>, { names = {}, query = {} }: Filled): string {
  const target = path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent((names[name] ?? '').toWellFormed()),
  );
  const asked = Object.entries(query)
    .map(([name, value]) => `${name}=${encodeURIComponent(value.toWellFormed())}`)
    .join('&');
  return asked === '' ? target : `${target}?${asked}`;
}
