import * as z from 'zod';
import { defined } from '../../model/json.ts';
import type { SplitRecord } from '../../model/settings.ts';
import { isoTime } from '../../model/time.ts';
import type { SplitId, SplitReport, Users } from '../../ports/users.ts';
import { idInBody } from '../ids.ts';
import { type ApiOperation, DryRunResult, defineOperation } from '../operation.ts';
import { Problem } from '../problem.ts';
import type { RecordDependencies } from '../records.ts';

export interface SplitOperationDependencies extends Pick<RecordDependencies, 'settings' | 'clock'> {
  readonly users: Pick<Users, 'foreseeSplit' | 'applySplits'>;
  readonly newId: () => string;
}

/** Splits of one installation: every event that joins looks at them. */
const MAX_SPLITS = 10_000;

const idFields = {
  userId: idInBody.exactOptional(),
  anonymousId: idInBody.exactOptional(),
  external: z
    .strictObject({ trait: z.string().min(1), value: idInBody })
    .exactOptional()
    .meta({ description: 'An external id, by the trait that `identities.externalIds` names.' }),
};

const idInput = z
  .strictObject(idFields)
  .refine((id) => Object.keys(id).length === 1, 'must have one of userId, anonymousId and external');

const splitFields = {
  id: z.string(),
  createdAt: z.string(),
  by: z.string(),
};

const reportFields = {
  profiles: z
    .array(
      z.object({
        userId: z.string().exactOptional(),
        formerUserIds: z.array(z.string()),
        anonymousIds: z.array(z.string()),
        externalIds: z.record(z.string(), z.array(z.string())),
        events: z.int().meta({ description: 'Stored events that count for it.' }),
      }),
    )
    .meta({ description: 'What their profile becomes; empty where they are ids of two already.' }),
  told: z
    .array(
      z.object({
        userId: z.string().exactOptional(),
        anonymousId: z.string().exactOptional(),
        key: z.string().meta({ description: 'Of the audience or the computed trait.' }),
        value: z.unknown(),
        destinations: z
          .array(z.string())
          .exactOptional()
          .meta({ description: 'Those that hear it; absent for all of the audience or trait.' }),
      }),
    )
    .meta({ description: 'What destinations hear.' }),
  poorer: z.boolean().meta({
    description: 'Some of what the profile was made of is not stored any more: what only that said is lost.',
  }),
};

/** spec/contract.md, "Operations on profiles". */
export function splitOperations(dependencies: SplitOperationDependencies): ApiOperation[] {
  const { settings, clock } = dependencies;
  return [
    defineOperation({
      method: 'POST',
      path: 'splits',
      role: 'admin',
      status: 201,
      summary: 'Takes a wrong merge apart: two ids are never ids of one profile from now on',
      body: z.strictObject({
        ids: z.array(idInput).length(2).meta({ description: 'The two ids.' }),
        dryRun: z.boolean().default(false).meta({ description: 'Only says what would come of it.' }),
        confirm: z.boolean().default(false).meta({ description: 'Goes on although something is lost.' }),
      }),
      answer: z.object({ ...splitFields, ...reportFields }),
      dryRun: z.object(reportFields),
      problems: ['unknown_user', 'split_loses', 'too_many_splits'],
      run: async ({ body, by }) => await createSplit(body, by, dependencies),
    }),
    defineOperation({
      method: 'GET',
      path: 'splits',
      role: 'viewer',
      summary: 'Lists splits. The ids are kept as hashes alone, so the list does not name them',
      isInMemory: true,
      answer: z.object({ data: z.array(z.object(splitFields)) }),
      run: async () => ({ data: settings.now().splits.map(splitView) }),
    }),
    defineOperation({
      method: 'DELETE',
      path: 'splits/:id',
      role: 'admin',
      summary: 'Ends a split: the next event that joins the two ids joins them again',
      answer: z.object(splitFields),
      problems: ['unknown_name'],
      run: async ({ names, by }) => {
        const id = names['id'] ?? '';
        const at = clock.now();
        const find = ({ splits }: { readonly splits: readonly SplitRecord[] }) => {
          const found = splits.find((one) => one.id === id);
          if (found !== undefined) return found;
          const hint = `${JSON.stringify(id)} is no split; GET /api/v1/splits lists them.`;
          throw new Problem('unknown_name', { hint });
        };
        const found = find(settings.now());
        await settings.change((now) => {
          find(now);
          const removed = [{ kind: 'split', name: id } as const];
          const audit = [{ at, by, action: 'removed', kind: 'split', name: id } as const];
          return { sources: [], destinations: [], removed, audit };
        });
        return splitView(found);
      },
    }),
  ];
}

interface SplitBody {
  readonly ids: readonly z.output<typeof idInput>[];
  readonly dryRun: boolean;
  readonly confirm: boolean;
}

async function createSplit(
  { ids, dryRun, confirm }: SplitBody,
  by: string,
  { settings, users, clock, newId }: SplitOperationDependencies,
) {
  const [one, other] = [identityOf(ids[0]!), identityOf(ids[1]!)];
  if (one.kind === other.kind && one.value === other.value)
    throw new Problem('invalid_parameters', {
      errors: [{ path: 'body.ids', message: 'must be two different ids' }],
    });
  const report = await users.foreseeSplit([one, other]);
  if (report === undefined)
    throw new Problem('unknown_user', { hint: 'No profile has either of these ids, so nothing joins them.' });
  if (dryRun) return new DryRunResult(reportView(report));
  if (report.isPoorer && !confirm) throw new Problem('split_loses');
  const split: SplitRecord = { id: newId(), keys: report.keys, createdAt: clock.now(), by };
  const { id, createdAt } = split;
  await settings.change(({ splits }) => {
    if (splits.length >= MAX_SPLITS) throw new Problem('too_many_splits');
    const audit = [{ at: createdAt, by, action: 'created', kind: 'split', name: id, after: { id } } as const];
    return { sources: [], destinations: [], splits: [split], audit };
  });
  await users.applySplits();
  return { ...splitView(split), ...reportView(report) };
}

function identityOf({ userId, anonymousId, external }: z.output<typeof idInput>): SplitId {
  if (external !== undefined) return { kind: external.trait, value: external.value };
  return userId === undefined
    ? { kind: 'anonymous', value: anonymousId ?? '' }
    : { kind: 'user', value: userId };
}

function splitView({ id, createdAt, by }: SplitRecord) {
  return { id, createdAt: isoTime(createdAt), by };
}

function reportView({ profiles, told, isPoorer }: SplitReport) {
  return {
    profiles: profiles.map(({ formerUserIds, anonymousIds, externalIds, ...rest }) => ({
      ...rest,
      formerUserIds: [...formerUserIds],
      anonymousIds: [...anonymousIds],
      externalIds: Object.fromEntries(
        Object.entries(externalIds).map(([kind, values]) => [kind, [...values]]),
      ),
    })),
    told: told.map(({ destinations, ...rest }) => ({
      ...rest,
      ...defined({ destinations: destinations && [...destinations] }),
    })),
    poorer: isPoorer,
  };
}
