import { randomBytes } from 'node:crypto';
import * as z from 'zod';
import type { JsonObject } from '../../model/json.ts';
import {
  ADDRESS_RULES,
  DEFAULT_ADDRESS_RULE,
  DEFAULT_TRUST,
  type Source,
  TRUSTS,
} from '../../model/settings.ts';
import { diffRecords } from '../changes.ts';
import { type ApiOperation, defineOperation, type OperationInput, TaggedResult } from '../operation.ts';
import { pageByName, pageQuery, pageSchema } from '../pagination.ts';
import { Problem } from '../problem.ts';
import {
  checkRecord,
  etagOf,
  mergePatch,
  type RecordDependencies,
  recordInput,
  refuseStale,
} from '../records.ts';
import { FILTERED, NAMED_SOURCE } from '../token-limits.ts';
import { unknownName } from '../unknown-name.ts';
import { sourceView, sourceViewFor, toJson } from '../views.ts';

const sourceSchema = z.object({
  name: z.string(),
  writeKeys: z.array(z.string()).meta({
    description:
      'For a viewer only how each ends, such as …1234: whoever has one sends events as the source.',
  }),
  enabled: z.boolean(),
  mode: z.enum(['standard', 'strict']),
  whenDisabled: z.enum(['refuse', 'discard']),
  dedupeWindow: z.string().exactOptional(),
  rateLimit: z.number().exactOptional(),
  rateLimitPerAddress: z.number().exactOptional().meta({
    description: '0: no limit. Absent: 200 where trust is client, and no limit where it is server.',
  }),
  ip: z.enum(ADDRESS_RULES).meta({
    description:
      'What becomes of the address of a caller: docs/reference/receiving.md, "The address of the client".',
  }),
  trust: z.enum(TRUSTS).meta({
    description:
      'Whether its calls may join two users: server, or client for one whose write keys are public. docs/reference/identities.md.',
  }),
  shadow: z.literal(true).exactOptional().meta({
    description: 'Its events are stored and found, and neither delivered nor part of profiles.',
  }),
  projectId: z.string().exactOptional().meta({
    description: 'The projectId of its events where a destination has the format segment. Absent: its name.',
  }),
  consent: z.literal('required').exactOptional().meta({
    description:
      'A call that says nothing of consent consents to nothing. Absent: nothing is withheld of it.',
  }),
  scriptPath: z.string().exactOptional().meta({
    description:
      'A path of the browser library with its first write key: docs/reference/receiving.md, "Pages with a snippet".',
  }),
  forwarded: z.object({ sharedSecret: z.string().exactOptional() }).exactOptional().meta({
    description: 'Forwarded calls are taken only with a signature by it; for a viewer only how it ends.',
  }),
  system: z.literal(true).exactOptional().meta({ description: 'Made by the server, and not to be changed.' }),
});

const sourceInput = recordInput.meta({
  description: 'As in the configuration file, `sources[]`: spec/config.schema.json.',
});

/** spec/contract.md, "Operations on sources". */
export function sourceOperations(dependencies: RecordDependencies): ApiOperation[] {
  const { settings, clock, types } = dependencies;
  return [
    ...sourceReadings(dependencies),
    defineOperation({
      method: 'POST',
      path: 'sources',
      role: 'editor',
      status: 201,
      sharesAnswer: true,
      isTagged: true,
      summary: 'Creates a source; a write key is made when none is given',
      body: sourceInput,
      described: dependencies.schemas.source,
      answer: sourceSchema,
      problems: ['name_taken'],
      run: async ({ body, by }) => {
        const wish = { writeKeys: [newWriteKey()], ...body };
        const { sources } = await settings.change((now) => {
          const record = checkRecord('sources', wish, { now, check: dependencies.check });
          if (now.sources.some(({ name }) => name === record.name)) throw new Problem('name_taken');
          return diffRecords({ sources: [record] }, now, { by, clock, types });
        });
        return taggedSource(sourceByName(String(body['name']), sources));
      },
    }),
    defineOperation({
      method: 'PATCH',
      path: 'sources/:name',
      role: 'editor',
      isTagged: true,
      summary: 'Changes a source by a JSON merge patch',
      // Its trust is about the users of all sources.
      isWithin: (limits, input) => NAMED_SOURCE(limits, input) && !('trust' in Object(input.body)),
      body: sourceInput,
      answer: sourceSchema,
      problems: ['unknown_name', 'system_record'],
      run: (input) => patchSource(input, input.body, dependencies),
    }),
    defineOperation({
      method: 'DELETE',
      path: 'sources/:name',
      role: 'editor',
      isTagged: true,
      summary: 'Removes a source; its write keys are unknown from then on, and what it sent stays',
      problems: ['unknown_name', 'system_record'],
      run: (input) => removeSource(input, dependencies),
    }),
  ];
}

function sourceReadings({ settings }: Pick<RecordDependencies, 'settings'>): ApiOperation[] {
  return [
    defineOperation({
      method: 'GET',
      path: 'sources',
      role: 'viewer',
      summary: 'Lists the sources by name',
      isInMemory: true,
      isWithin: FILTERED,
      query: z.object(pageQuery),
      answer: pageSchema(sourceSchema),
      run: async ({ query, client: { caller } }) =>
        pageByName(
          settings
            .now()
            .sources.filter(({ name }) => caller?.limits?.sources.includes(name) !== false)
            .map((source) => sourceViewFor(caller?.role, source)),
          query,
        ),
    }),
    defineOperation({
      method: 'GET',
      path: 'sources/:name',
      role: 'viewer',
      isTagged: true,
      isInMemory: true,
      summary: 'Shows a source',
      isWithin: NAMED_SOURCE,
      answer: sourceSchema,
      problems: ['unknown_name'],
      run: async ({ names, client: { caller } }) => {
        const source = sourceByName(names['name'], settings.now().sources);
        return new TaggedResult(sourceViewFor(caller?.role, source), taggedSource(source).tag);
      },
    }),
  ];
}

async function patchSource(
  { names, by, ifMatch }: Pick<OperationInput, 'names' | 'by' | 'ifMatch'>,
  body: JsonObject,
  dependencies: RecordDependencies,
): Promise<TaggedResult> {
  const name = names['name'] ?? '';
  const { sources } = await dependencies.settings.change(async (now) => {
    const before = sourceByName(name, now.sources);
    refuseSystemSource(before);
    await refuseStale({ ifMatch, tag: taggedSource(before).tag }, { kind: 'source', name }, dependencies);
    const merged = mergePatch(toJson(sourceView(before)), body);
    refuseRenaming(name, merged);
    const record = checkRecord('sources', merged, { now, check: dependencies.check });
    // A merge patch removes these with null, and a record without the key would stay as it is.
    const { ip = DEFAULT_ADDRESS_RULE, trust = DEFAULT_TRUST } = record;
    return diffRecords({ sources: [{ ...record, ip, trust }] }, now, {
      by,
      clock: dependencies.clock,
      types: dependencies.types,
    });
  });
  return taggedSource(sourceByName(name, sources));
}

async function removeSource(
  { names, by, ifMatch }: Pick<OperationInput, 'names' | 'by' | 'ifMatch'>,
  dependencies: RecordDependencies,
): Promise<undefined> {
  const name = names['name'] ?? '';
  const { settings, clock, types } = dependencies;
  await settings.change(async (now) => {
    const before = sourceByName(name, now.sources);
    refuseSystemSource(before);
    const { tag } = taggedSource(before);
    await refuseStale({ ifMatch, tag }, { kind: 'source', name }, dependencies);
    return diffRecords({ removed: [{ kind: 'source', name }] }, now, { by, clock, types });
  });
}

/** Records cannot be renamed: links, programs and people refer to them by name. */
export function refuseRenaming(name: string, merged: JsonObject): void {
  if (merged['name'] === name) return;
  const message = 'cannot be changed: make a new record, and remove this one';
  throw new Problem('invalid_parameters', { errors: [{ path: 'body.name', message }] });
}

function refuseSystemSource({ system }: Source): void {
  if (system) throw new Problem('system_record');
}

function taggedSource(source: Source): TaggedResult {
  const value = sourceView(source);
  return new TaggedResult(value, etagOf(value));
}

function sourceByName(name: string | undefined, sources: readonly Source[]): Source {
  const source = sources.find((one) => one.name === name);
  if (source !== undefined) return source;
  throw unknownName(name ?? '', 'source', sources);
}

function newWriteKey(): string {
  return `wk_${randomBytes(18).toString('base64url')}`;
}
