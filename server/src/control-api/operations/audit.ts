import * as z from 'zod';
import { defined, isObject, type Json, type JsonObject } from '../../model/json.ts';
import { maskKey, maskUrl } from '../../model/secrets.ts';
import { hasRole } from '../../model/settings.ts';
import type { AuditEntry } from '../../ports/settings-store.ts';
import { textInQuery } from '../ids.ts';
import { type ApiOperation, defineOperation } from '../operation.ts';
import { pageQuery, pageSchema, parseNumberCursor } from '../pagination.ts';
import type { RecordDependencies } from '../records.ts';

const KINDS = [
  'source',
  'destination',
  'audience',
  'trait',
  'alert',
  'token',
  'replay',
  'regulation',
  'split',
] as const;

const entrySchema = z.object({
  at: z.string(),
  by: z.string(),
  action: z.enum(['created', 'changed', 'removed']),
  kind: z.enum(KINDS),
  name: z.string(),
  before: z.looseObject({}).exactOptional(),
  after: z.looseObject({}).exactOptional(),
});

/** The changes of records: author, time, and the record before and after. */
export function auditOperations({ settings }: Pick<RecordDependencies, 'settings'>): ApiOperation[] {
  return [
    defineOperation({
      method: 'GET',
      path: 'audit',
      role: 'viewer',
      summary: 'Lists the changes of records, the newest first; secrets are not shown',
      query: z.object({
        ...pageQuery,
        kind: z.enum(KINDS).exactOptional(),
        name: textInQuery.exactOptional(),
      }),
      answer: pageSchema(entrySchema),
      run: async ({ query: { limit, cursor, ...query }, client: { caller } }) => {
        const maySeeKeys = caller !== undefined && hasRole(caller.role, 'editor');
        const { entries, next } = await settings.audit(query, limit, parseNumberCursor(cursor));
        return {
          data: entries.map((entry) => entryView(maySeeKeys ? entry : withMaskedKeys(entry))),
          next: next === undefined ? null : String(next),
        };
      },
    }),
  ];
}

function entryView({ at, by, action, kind, name, before, after }: AuditEntry) {
  return {
    at: new Date(at).toISOString(),
    by,
    action,
    kind,
    name,
    ...defined({ before: recordView(before), after: recordView(after) }),
  };
}

function recordView(record: Json | undefined): JsonObject | undefined {
  // Records are objects.
  return record === undefined ? undefined : (withMaskedUrls(record) as JsonObject);
}

/** The entry for a viewer, who gets a mask in the place of each write key and secret of a source. */
function withMaskedKeys(entry: AuditEntry): AuditEntry {
  const { before, after, ...rest } = entry;
  return {
    ...rest,
    ...defined({ before: maskedKeys(before), after: maskedKeys(after) }),
  };
}

function maskedKeys(record: Json | undefined): Json | undefined {
  if (!isObject(record) || !Array.isArray(record['writeKeys'])) return record;
  const { forwarded } = record;
  const secret = isObject(forwarded) ? forwarded['sharedSecret'] : undefined;
  const masked = typeof secret === 'string' ? { forwarded: { sharedSecret: maskKey(secret) } } : {};
  return { ...record, writeKeys: record['writeKeys'].map((key) => maskKey(String(key))), ...masked };
}

/** Masks URLs in entries of earlier versions, which stored them whole. */
function withMaskedUrls(value: Json): Json {
  if (Array.isArray(value)) return value.map(withMaskedUrls);
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([key, inner]): [string, Json] => [
    key,
    key === 'url' && typeof inner === 'string' ? maskUrl(inner) : withMaskedUrls(inner),
  ]);
  return Object.fromEntries(entries);
}
