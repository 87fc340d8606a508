import { gzipSync } from 'node:zlib';
import type { Random } from './random.ts';

/** Bodies as clients make them, and as no client should. */

const TYPES = ['identify', 'track', 'page', 'screen', 'group', 'alias', 'delete', '', null, 7];
const KEYS = [
  'userId',
  'anonymousId',
  'event',
  'messageId',
  'timestamp',
  'sentAt',
  'originalTimestamp',
  'properties',
];
const MORE_KEYS = [
  'traits',
  'context',
  'integrations',
  'groupId',
  'previousId',
  'name',
  'category',
  'writeKey',
  'type',
];
const ODD_KEYS = [
  '__proto__',
  'constructor',
  'toString',
  '',
  '0',
  '4294967295',
  'a.b',
  '\u0000',
  '\ud800',
  'batch',
];
const TEXTS = [
  'u1',
  '',
  ' ',
  'x'.repeat(200),
  '2026-03-04T05:06:07Z',
  '2015-2-02T00:30:08.276Z',
  '\ud83d',
  'é€😀',
  'null',
];
const NUMBERS = ['0', '-0', '1e400', '1e-400', '12345678901234567890', '0.1', '-1', '9007199254740993'];

/** JSON as text: a value would not keep such numbers and keys. */
function jsonText(random: Random, depth = 0): string {
  const kinds = depth > 4 ? 4 : 6;
  switch (random.int(kinds)) {
    case 0:
      return random.pick(['null', 'true', 'false', ...NUMBERS]);
    case 1:
    case 2:
    case 3:
      return JSON.stringify(random.pick(TEXTS));
    case 4:
      return `[${list(random, () => jsonText(random, depth + 1))}]`;
    default:
      return `{${list(random, () => `${JSON.stringify(random.pick([...KEYS, ...ODD_KEYS]))}:${jsonText(random, depth + 1)}`)}}`;
  }
}

function list(random: Random, make: () => string): string {
  return Array.from({ length: random.int(5) }, make).join(',');
}

let ids = 0;

export function validCall(): string {
  const call = {
    type: 'track',
    messageId: `fuzz-${++ids}`,
    userId: 'u1',
    event: 'E',
    properties: { total: 9 },
  };
  return JSON.stringify(call);
}

function call(random: Random): string {
  if (random.percent(30)) return validCall();
  const fields = [...KEYS, ...MORE_KEYS]
    .filter(() => random.percent(40))
    .map(
      (key) =>
        `${JSON.stringify(key)}:${random.percent(50) ? JSON.stringify(random.pick(TEXTS)) : jsonText(random)}`,
    );
  if (random.percent(70)) fields.push(`"type":${JSON.stringify(random.pick(TYPES))}`);
  return `{${fields.join(',')}}`;
}

function batch(random: Random): string {
  const length = random.percent(5) ? 2400 + random.int(200) : random.int(20);
  const one = random.percent(50) ? () => call(random) : () => '{}';
  const shared = random.percent(30)
    ? `"context":${jsonText(random)},"integrations":${jsonText(random)},`
    : '';
  return `{${shared}"batch":[${Array.from({ length }, one).join(',')}]}`;
}

function nested(random: Random): string {
  const depth = random.pick([499, 501, 5000, 100_000]);
  return random.percent(50)
    ? `${'['.repeat(depth)}${']'.repeat(depth)}`
    : `{"userId":"u","event":"E","properties":${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}}`;
}

/** A body, and whether it is gzip. */
export function body(random: Random): { bytes: Buffer; gzip: boolean } {
  const text = random.pick([
    call,
    call,
    batch,
    batch,
    nested,
    (chance: Random) => jsonText(chance),
    () => '',
  ])(random);
  const plain = random.percent(20) ? mutated(random, Buffer.from(text)) : Buffer.from(text);
  if (random.percent(80)) return { bytes: plain, gzip: false };
  const zipped = random.percent(10) ? BOMB : gzipSync(plain);
  return { bytes: random.percent(30) ? mutated(random, zipped) : zipped, gzip: true };
}

const BOMB = gzipSync(Buffer.alloc(30_000_000));

/** The bytes with some of them changed, left out, repeated, cut or put in. */
export function mutated(random: Random, bytes: Buffer): Buffer {
  let result = bytes;
  for (let n = random.int(6); n >= 0; n--) {
    const at = random.int(result.length);
    const [before, after] = [result.subarray(0, at), result.subarray(at)];
    const some = random.int(random.pick([2, 20, 400]));
    result = random.pick([
      () => Buffer.concat([before, random.bytes(some), after]),
      () => Buffer.concat([before, after.subarray(some)]),
      () => Buffer.concat([before, after.subarray(0, some), after]),
      () => Buffer.concat([before, random.bytes(1), after.subarray(1)]),
      () =>
        Buffer.concat([
          before,
          Buffer.from(random.pick(['\r\n', '\r', '\n', '\0', ':', ' ', '0', '\xff'])),
          after,
        ]),
      () => before,
    ])();
  }
  return result;
}
