import * as z from 'zod';
import { isObject, type Json } from '../model/json.ts';
import { shownUrl } from '../model/shown-url.ts';
import type { AuditEntry } from '../ports/settings.ts';
import { listOf, numberIn, paging } from './lists.ts';
import { type Operation, operation } from './operation.ts';
import type { RecordTools } from './records.ts';

const KINDS = ['source', 'destination', 'token', 'replay'] as const;

const entry = z.object({
  at: z.string(),
  by: z.string(),
  action: z.enum(['created', 'changed', 'removed']),
  kind: z.enum(KINDS),
  name: z.string(),
  before: z.looseObject({}).exactOptional(),
  after: z.looseObject({}).exactOptional(),
});

/** Who changed what, when, and how it was before and after. */
export function auditOperations({ settings }: Pick<RecordTools, 'settings'>): Operation[] {
  return [
    operation({
      ...{ method: 'GET', path: 'audit', role: 'viewer' },
      summary: 'Lists the changes of records, the newest first; secrets are not shown',
      query: z.object({
        ...paging,
        kind: z.enum(KINDS).exactOptional(),
        name: z.string().exactOptional(),
      }),
      answer: listOf(entry),
      run: async ({ query: { limit, cursor, ...query } }) => {
        const { entries, next } = await settings.audit(query, limit, numberIn(cursor));
        return { data: entries.map(shown), next: next === undefined ? null : String(next) };
      },
    }),
  ];
}

function shown({ at, by, action, kind, name, before, after }: AuditEntry) {
  return {
    ...{ at: new Date(at).toISOString(), by, action, kind, name },
    ...(before === undefined ? {} : { before: withShownUrls(before) }),
    ...(after === undefined ? {} : { after: withShownUrls(after) }),
  };
}

/** Entries that earlier versions wrote hold the whole URLs of endpoints. */
function withShownUrls(value: Json): Json {
  if (Array.isArray(value)) return value.map(withShownUrls);
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([key, inner]): [string, Json] => [
    key,
    key === 'url' && typeof inner === 'string' ? shownUrl(inner) : withShownUrls(inner),
  ]);
  return Object.fromEntries(entries);
}
