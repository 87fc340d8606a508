import fc from 'fast-check';
import type { DescribedOperation } from './document.ts';
import { requestOf } from './random-requests.ts';

/** The largest body that the control API takes. */
const MOST_BYTES = 1024 * 1024;

/** One entry of a list, as text: right ones, nearly right ones, and some that have nothing to do with it. */
const ENTRIES = fc.constantFrom(
  '{"u":1}',
  '1',
  'null',
  '""',
  '"a"',
  '{}',
  '[]',
  '{"url":"http://1.1.1.1"}',
  '{"url":"http://1.1.1.1","headers":{"a":"b"}}',
  '{"url":7,"headers":{"Host":"a","Host ":"b"}}',
  '{"name":"a","writeKeys":["k"]}',
  '{"name":"a","type":"webhooks","sources":[],"settings":{"endpoints":[{"url":"http://1.1.1.1"}]}}',
  '{"name":"a","type":"webhooks","sources":["b"],"settings":{"endpoints":[{"u":1},{"u":1}]}}',
);

/** Texts of JSON that are as large as they may be and cost as much as they can. */
const LARGE = fc.oneof(
  ENTRIES.map((entry) => list(entry)),
  ENTRIES.map((entry) => mapping(() => entry)),
  fc.constantFrom('[', '{"a":', '[[],').map((open) => nested(open)),
  fc
    .constantFrom('x', 'é', '\\u0000', '@', '?', '://', '%2e', '*')
    .map((unit) => `"${unit.repeat((MOST_BYTES - 200) / Buffer.byteLength(unit))}"`),
  fc.constant('1'.repeat(MOST_BYTES - 200)),
);

export function list(entry: string, most = MOST_BYTES - 300): string {
  return `[${Array.from({ length: Math.floor(most / (entry.length + 1)) }, () => entry).join(',')}]`;
}

export function mapping(entry: (nth: number) => string, most = MOST_BYTES - 300): string {
  const parts: string[] = [];
  for (let bytes = 0, nth = 0; bytes < most; nth++) {
    const part = `"k${nth}":${entry(nth)}`;
    bytes += part.length + 1;
    parts.push(part);
  }
  return `{${parts.slice(0, -1).join(',')}}`;
}

export function nested(open: string): string {
  const close = open.startsWith('{') ? '}' : ']';
  const depth = Math.floor((MOST_BYTES - 300) / (open.length + 1));
  return `${open.repeat(depth)}1${close.repeat(depth)}`;
}

/** Where something large stands: `…` is its place. */
const PLACES: readonly string[] = [
  '…',
  '{"…":1}',
  '{"name":…}',
  '{"writeKeys":…}',
  '{"name":"a","type":"webhooks","sources":…,"settings":{"endpoints":[{"url":"http://1.1.1.1"}]}}',
  '{"name":"a","type":"webhooks","sources":[],"settings":{"endpoints":…}}',
  '{"name":"a","type":"webhooks","sources":[],"settings":{"endpoints":[{"url":…}]}}',
  '{"name":"a","type":"webhooks","sources":[],"settings":{"endpoints":[{"url":"http://1.1.1.1","headers":…}]}}',
  '{"settings":{"endpoints":…}}',
  '{"settings":{"endpoints":[{"url":"http://1.1.1.1","headers":…}]}}',
  '{"settings":{"filter":{"events":…}}}',
  '{"settings":{"filter":{"types":…}}}',
  '{"settings":{"signingSecrets":…}}',
  '{"settings":…}',
  '{"sources":…}',
  '{"destinations":…}',
  '{"destinations":[{"name":"a","type":"webhooks","sources":[],"settings":{"endpoints":…}}]}',
  '{"destination":"a","ids":…}',
  '{"destination":…}',
  '{"types":…}',
  '{"folder":…}',
];

/**
 * Bodies as the schema of an operation has them, and large ones at every place where the API has a list or a
 * mapping.
 */
export function hostileBodyOf(operation: DescribedOperation): fc.Arbitrary<string> {
  // A backup is written wherever the body says.
  const drawn = requestOf(operation).map(({ body }) => text(body).replaceAll('"folder":"/', '"folder":"'));
  const large = fc
    .tuple(fc.constantFrom(...PLACES), LARGE)
    .map(([place, value]) =>
      place.replace('…', () => (place === '{"…":1}' ? value.replaceAll('"', '') : value)),
    );
  return fc.oneof(
    { weight: 1, arbitrary: drawn },
    { weight: 2, arbitrary: large },
    { weight: 1, arbitrary: RECORDS },
  );
}

/** As many good records as fit. */
const RECORDS = fc.tuple(fc.boolean(), fc.integer({ min: 1, max: 1200 })).map(([isSource, count]) => {
  const records = Array.from({ length: count }, (_, nth) =>
    isSource
      ? { name: `s${nth}`, writeKeys: [`k${nth}`] }
      : {
          name: `d${nth}`,
          type: 'webhooks',
          sources: [],
          settings: { endpoints: [{ url: `http://127.0.0.1:${nth + 1}/` }] },
        },
  );
  return JSON.stringify(isSource ? { sources: records } : { destinations: records });
});

function text(body: unknown): string {
  return body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body);
}
