import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import errors from '../../../spec/errors.json' with { type: 'json' };
import type { CallType } from '../model/event.ts';
import type { Json } from '../model/json.ts';
import type { Source } from '../model/settings.ts';
import { indexWriteKeys, type WriteKeyLookup } from './calls.ts';
import { type ParsedRequest, parseRequest } from './parse.ts';

/** `spec/fixtures/ingest`: one request each, and what becomes of it. */
interface Fixture {
  readonly sources: readonly (Partial<Source> & Pick<Source, 'name' | 'writeKeys'>)[];
  readonly cases: readonly {
    readonly name: string;
    readonly unknownWriteKeys?: WriteKeyLookup['unknown'];
    readonly request: {
      readonly type: CallType | 'batch' | 'forwarded';
      readonly writeKey?: string;
      readonly receivedAt: string;
      /** Where the request came from. */
      readonly address?: string;
      /** The body, as a value or as the text itself. */
      readonly body?: Json;
      readonly text?: string;
      /** The body as text in Latin-1. */
      readonly latin1?: string;
    };
    readonly expect: Readonly<Record<string, unknown>>;
  }[];
}

const folder = new URL('../../../spec/fixtures/ingest/', import.meta.url);

for (const file of readdirSync(folder)) {
  const fixture: Fixture = JSON.parse(readFileSync(new URL(file, folder), 'utf8'));
  describe(file, () => {
    test.each(fixture.cases)('$name', ({ request, unknownWriteKeys, expect: expected }) => {
      const { type, writeKey, receivedAt, address, body, text, latin1 } = request;
      const sources = sourcesOf(fixture);
      const received = parseRequest(
        {
          type,
          body:
            latin1 === undefined ? Buffer.from(text ?? JSON.stringify(body)) : Buffer.from(latin1, 'latin1'),
          receivedAt: Date.parse(receivedAt),
          ...(writeKey === undefined ? {} : { writeKey }),
          ...(address === undefined ? {} : { peer: { remoteAddress: address } }),
        },
        indexWriteKeys(sources, unknownWriteKeys ?? 'refuse'),
        countingIds(),
      );
      // As text: the order of the keys is part of what is expected.
      expect(JSON.stringify(summaryOf(received, sources), null, 1)).toBe(JSON.stringify(expected, null, 1));
    });
  });
}

test('every reason to discard a call has a case, but one that takes 32 KB, and one that takes a store', () => {
  const cases = readdirSync(folder).map((file) => readFileSync(new URL(file, folder), 'utf8'));
  const reasons = Object.keys(errors.discard).filter(
    (reason) => !cases.some((text) => text.includes(`"${reason}"`)),
  );
  expect(reasons).toEqual(['message_too_large', 'suppressed']);
});

/** Ids in the order of the file, from 1. */
function sourcesOf({ sources }: Fixture): Source[] {
  return sources.map((source, index) => ({
    id: index + 1,
    enabled: true,
    mode: 'standard',
    whenDisabled: 'refuse',
    ...source,
  }));
}

function countingIds(): () => string {
  let count = 0;
  return () => `assigned-${++count}`;
}

/** In the words of the fixtures: sources by name, parts that are empty left out. */
function summaryOf(call: ParsedRequest, sources: readonly Source[]): Record<string, unknown> {
  const received = Object.fromEntries(
    call.counts.map(({ source, calls, discarded }) => [sources[source - 1]!.name, { calls, discarded }]),
  );
  if (call.kind === 'refused') {
    const { code, invalid } = call;
    return { refused: code, ...(invalid === undefined ? {} : { invalid }), received };
  }
  const { events, unattributed, changes } = call;
  return {
    events: events.map(({ sender, json }) => ({ source: sender.name, event: JSON.parse(json) })),
    received,
    ...(Object.keys(unattributed).length === 0 ? {} : { unattributed }),
    ...(changes.size === 0
      ? {}
      : { changed: Object.fromEntries([...changes].map(([id, one]) => [sources[id - 1]!.name, one])) }),
  };
}
