import { randomBytes } from 'node:crypto';
import * as z from 'zod';
import type { JsonObject } from '../model/json.ts';
import type { Source } from '../model/source.ts';
import { changesOf } from './changes.ts';
import { listOf, pageByName, paging } from './lists.ts';
import { mergePatch } from './merge-patch.ts';
import { type Input, type Operation, operation, Tagged } from './operation.ts';
import { Problem } from './problem.ts';
import { checkOne, type RecordTools, refuseStale, tagOf, wantedRecord } from './records.ts';
import { asJson, shownSource } from './shown.ts';

const shown = z.object({
  name: z.string(),
  writeKeys: z.array(z.string()),
  enabled: z.boolean(),
  mode: z.enum(['standard', 'strict']),
  whenDisabled: z.enum(['refuse', 'discard']),
  dedupeWindow: z.string().exactOptional(),
  rateLimit: z.number().exactOptional(),
});

const wanted = wantedRecord.meta({
  description: 'As in the configuration file, `sources[]`: spec/config.schema.json.',
});

/** contract.md section 4, `sources`. */
export function sourceOperations(tools: RecordTools): Operation[] {
  const { settings, clock } = tools;
  return [
    operation({
      ...{
        method: 'GET',
        path: 'sources',
        role: 'viewer',
        summary: 'Lists the sources by name',
        isInMemory: true,
      },
      query: z.object(paging),
      answer: listOf(shown),
      run: async ({ query }) => pageByName(settings.now().sources.map(shownSource), query),
    }),
    operation({
      ...{ method: 'POST', path: 'sources', role: 'editor', status: 201, isTagged: true },
      summary: 'Creates a source; a write key is made when none is given',
      body: wanted,
      described: tools.schemas.source,
      answer: shown,
      problems: ['name_taken'],
      run: async ({ body, by }) => {
        const wish = { writeKeys: [newWriteKey()], ...body };
        const { sources } = await settings.change((now) => {
          const record = checkOne('sources', wish, { now, check: tools.check });
          if (now.sources.some(({ name }) => name === record.name)) throw new Problem('name_taken');
          return changesOf({ sources: [record] }, now, { by, clock });
        });
        return tagged(sourceNamed(String(body['name']), sources));
      },
    }),
    operation({
      ...{ method: 'GET', path: 'sources/:name', role: 'viewer', isTagged: true, isInMemory: true },
      summary: 'Shows a source',
      answer: shown,
      problems: ['unknown_name'],
      run: async ({ names }) => tagged(sourceNamed(names['name'], settings.now().sources)),
    }),
    operation({
      ...{ method: 'PATCH', path: 'sources/:name', role: 'editor', isTagged: true },
      summary: 'Changes a source by a JSON merge patch',
      body: wanted,
      answer: shown,
      problems: ['unknown_name'],
      run: (input) => patch(input, input.body, tools),
    }),
    operation({
      ...{ method: 'DELETE', path: 'sources/:name', role: 'editor', isTagged: true },
      summary: 'Removes a source; its write keys are unknown from then on, and what it sent stays',
      problems: ['unknown_name'],
      run: async ({ names, by, ifMatch }) => {
        const name = names['name'] ?? '';
        await settings.change(async (now) => {
          const { tag } = tagged(sourceNamed(name, now.sources));
          await refuseStale({ ifMatch, tag }, { kind: 'source', name }, tools);
          return changesOf({ removed: [{ kind: 'source', name }] }, now, { by, clock });
        });
        return undefined;
      },
    }),
  ];
}

async function patch(
  { names, by, ifMatch }: Pick<Input, 'names' | 'by' | 'ifMatch'>,
  body: JsonObject,
  tools: RecordTools,
): Promise<Tagged> {
  const name = names['name'] ?? '';
  const { sources } = await tools.settings.change(async (now) => {
    const before = sourceNamed(name, now.sources);
    await refuseStale({ ifMatch, tag: tagged(before).tag }, { kind: 'source', name }, tools);
    const merged = mergePatch(asJson(shownSource(before)), body);
    refuseRenaming(name, merged);
    const record = checkOne('sources', merged, { now, check: tools.check });
    return changesOf({ sources: [record] }, now, { by, clock: tools.clock });
  });
  return tagged(sourceNamed(name, sources));
}

/** Everything refers to a record by its name, programs and people too. */
export function refuseRenaming(name: string, merged: JsonObject): void {
  if (merged['name'] === name) return;
  const message = 'cannot be changed: make a new record, and remove this one';
  throw new Problem('invalid_parameters', { errors: [{ path: 'body.name', message }] });
}

function tagged(source: Source): Tagged {
  const value = shownSource(source);
  return new Tagged(value, tagOf(value));
}

function sourceNamed(name: string | undefined, sources: readonly Source[]): Source {
  const source = sources.find((one) => one.name === name);
  if (source !== undefined) return source;
  const hint = `${JSON.stringify(name)} is no source; GET /api/v1/sources lists them.`;
  throw new Problem('unknown_name', { hint });
}

function newWriteKey(): string {
  return `wk_${randomBytes(18).toString('base64url')}`;
}
