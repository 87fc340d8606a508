/**
 * The query of an address as plain texts: `?userId=42` is the user "42". The router would read it as JSON,
 * and make a number of an id. Routes say in `validateSearch` which parameters they know.
 */
export function parseSearch(query: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(query));
}

/** Parameters that are undefined or empty are left out. */
export function stringifySearch(search: Record<string, unknown>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(search)) {
    if (value !== undefined && value !== '' && value !== false) query.set(name, String(value));
  }
  return query.size === 0 ? '' : `?${query}`;
}

/** The given parameters of an address, for `validateSearch` of most routes. */
export function textParameters<Name extends string>(...names: readonly Name[]) {
  return (search: Record<string, unknown>): { readonly [Key in Name]?: string } => {
    const known = names.filter((name) => typeof search[name] === 'string' && search[name] !== '');
    return Object.fromEntries(known.map((name) => [name, search[name]])) as { [Key in Name]?: string };
  };
}
