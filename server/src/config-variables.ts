import { createHash } from 'node:crypto';

/** A secret that is to get the name of a variable: its destination, and where it stands in there. */
export interface SecretPlace {
  readonly destination: string;
  /**
   * `settings.sharedSecret`, `settings.signingSecrets[0]`, `settings.endpoints[0].headers.Authorization`, and for a value in
   * a query `settings.endpoints[0].url`, the name of the value, and its number among those of the name.
   */
  readonly path: readonly (string | number)[];
}

/** Characters of a digest at the end of a name that would not be unique without; more where even that is not enough. */
const SHORTEST_DIGEST = 8;

/**
 * The names of environment variables for secrets, in the order given: `CRM_SECRET`, `CRM_SIGNING_SECRET_1`,
 * `CRM_HEADER_1_AUTHORIZATION`, `CRM_QUERY_1_TOKEN`. No two are the same, and each depends on its own place alone, except that places whose
 * names would be the same all get a digest at the end. A number would be shorter, but a destination added later could
 * then take over a variable, and with it a secret, of another.
 */
export function variableNames(places: readonly SecretPlace[]): string[] {
  const plain = places.map(plainName);
  const isShared = (name: string) => plain.indexOf(name) !== plain.lastIndexOf(name);
  const taken = new Set(plain.filter((name) => !isShared(name)));
  return plain.map((name, nth) => {
    if (!isShared(name)) return name;
    const digest = createHash('sha256').update(JSON.stringify(places[nth])).digest('hex').toUpperCase();
    let length = SHORTEST_DIGEST;
    while (taken.has(`${name}_${digest.slice(0, length)}`)) length++;
    const unique = `${name}_${digest.slice(0, length)}`;
    taken.add(unique);
    return unique;
  });
}

function plainName({ destination, path }: SecretPlace): string {
  const prefix = wordOf(destination) || 'DESTINATION';
  const name = `${prefix}_${partName(path)}`;
  return /^[0-9]/.test(name) ? `_${name}` : name;
}

function partName([, part, nth, field, name]: SecretPlace['path']): string {
  if (part === 'sharedSecret') return 'SECRET';
  if (part === 'signingSecrets') return `SIGNING_SECRET_${Number(nth) + 1}`;
  return `${field === 'url' ? 'QUERY' : 'HEADER'}_${Number(nth) + 1}_${wordOf(String(name)) || 'VALUE'}`;
}

/** `ünd-so weiter` → `UND_SO_WEITER`; empty where no letter and no digit is left. */
function wordOf(text: string): string {
  return text
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toUpperCase()
    .replace(/[^A-Z0-9]+/g, '_')
    .replace(/^_|_$/g, '');
}
