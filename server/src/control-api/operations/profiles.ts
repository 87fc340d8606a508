import * as z from 'zod';
import { defined } from '../../model/json.ts';
import { sourceNames } from '../../model/settings.ts';
import { isoTime } from '../../model/time.ts';
import type { SettingsSnapshot } from '../../ports/settings-store.ts';
import type { Profile, UserIdentity, Users } from '../../ports/users.ts';
import { faultOf, idAsJson, idInQuery } from '../ids.ts';
import { type ApiOperation, DryRunResult, defineOperation } from '../operation.ts';
import { Problem } from '../problem.ts';

export interface ProfileOperationDependencies {
  readonly users: Pick<Users, 'profile' | 'rebuild'>;
  readonly settings: { now(): SettingsSnapshot };
}

export const mergeSchema = z.object({
  rule: z.enum(['identify', 'alias', 'external']).meta({
    description:
      '`identify`: a call named the user and this anonymous id; `alias`: an alias named it as previousId; ' +
      '`external`: both had this external id.',
  }),
  identity: z
    .object({ kind: z.string(), value: z.string() })
    .meta({ description: 'The id that joined them: of kind `user`, `anonymous`, or named as its trait.' }),
  messageId: z.string(),
  at: z.string(),
});

const refusedMergeSchema = z.object({
  rule: z.enum(['identify', 'alias', 'external']),
  reason: z.enum(['belongs_to_another_user', 'alias_off', 'too_many_ids', 'unproven', 'split']).meta({
    description:
      '`belongs_to_another_user`: two users do not become one by this id; `alias_off`: `identities.alias` is `refuse`; `too_many_ids`: the ' +
      'profile would have more than it may; `unproven`: nothing but the word of a client source speaks for it; `split`: the two are kept apart.',
  }),
  source: z.string(),
  at: z.string(),
  identity: z
    .object({ kind: z.string(), value: z.string() })
    .exactOptional()
    .meta({ description: 'The id that would have joined; absent where the event is not stored any more.' }),
  messageId: z.string().exactOptional(),
});

const profileSchema = z.object({
  userId: z.string().exactOptional().meta({ description: 'Absent while only other ids are known.' }),
  formerUserIds: z.array(z.string()).meta({ description: 'Joined to `userId` by an alias.' }),
  anonymousIds: z.array(z.string()),
  externalIds: z.record(z.string(), z.array(z.string())),
  traits: z.record(z.string(), z.unknown()),
  computedTraits: z.record(z.string(), z.unknown()).meta({ description: 'By key.' }),
  audiences: z.array(z.string()),
  groups: z.array(z.string()),
  consent: z
    .object({ categories: z.array(z.string()), at: z.string() })
    .exactOptional()
    .meta({
      description:
        'Categories that the user has consented to, by the newest event that has said anything of it; absent where none has.',
    }),
  leftOut: z.int().meta({
    description:
      'How many traits, groups and consent categories calls have named that the profile does not keep: too long, too many, or gone to make room for others.',
  }),
  sources: z.array(z.string()).meta({ description: 'Names of the sources that saw the user.' }),
  firstSeenAt: z.string(),
  lastSeenAt: z.string(),
  merges: z.array(mergeSchema).meta({ description: 'The last hundred, the newest first.' }),
  refusedMerges: z
    .object({ count: z.int(), samples: z.array(refusedMergeSchema) })
    .meta({ description: 'Merges that were refused: how many, and some of them, the newest first.' }),
});

const rebuildSchema = z.object({
  profiles: z.int().meta({ description: 'Profiles there are now.' }),
  events: z.int().meta({ description: 'Stored events that are applied again.' }),
  eventsSince: z.string().exactOptional().meta({ description: 'When the oldest of them arrived.' }),
  poorer: z.int().meta({
    description: 'Profiles with events from before that: what these said is lost by a rebuild.',
  }),
});

const userFields = {
  userId: idInQuery.exactOptional(),
  userIdJson: idAsJson.exactOptional().meta({ description: 'A userId as JSON text, in its quotes.' }),
  anonymousId: idInQuery.exactOptional(),
  anonymousIdJson: idAsJson
    .exactOptional()
    .meta({ description: 'An anonymousId as JSON text, in its quotes.' }),
};

type UserQuery = { readonly [Name in keyof typeof userFields]?: string };

function hasOneId(query: UserQuery): boolean {
  return Object.keys(query).length === 1;
}

function identityOf({ userId, userIdJson = userId, anonymousId, anonymousIdJson = anonymousId }: UserQuery) {
  return userIdJson === undefined ? { anonymousId: anonymousIdJson! } : { userId: userIdJson };
}

/** spec/contract.md, "Operations on profiles". */
export function profileOperations({ users, settings }: ProfileOperationDependencies): ApiOperation[] {
  const show = async (id: UserIdentity) => {
    const profile = await users.profile(id);
    if (profile === undefined) throw unknownUser(id);
    return profileView(profile, settings.now());
  };
  return [
    defineOperation({
      method: 'GET',
      path: 'profiles/:userId',
      role: 'viewer',
      showsBodies: true,
      summary: 'Shows what is known of a user, by its userId or a former one',
      answer: profileSchema,
      problems: ['unknown_user'],
      run: ({ names }) => show({ userId: names['userId'] ?? '' }),
    }),
    defineOperation({
      method: 'GET',
      path: 'profiles',
      role: 'viewer',
      showsBodies: true,
      summary:
        'Shows what is known of a user, by any of its ids: the way for ids that a path cannot carry, such as `..`',
      query: z
        .object(userFields)
        .refine(hasOneId, 'must have one of userId, userIdJson, anonymousId and anonymousIdJson'),
      answer: profileSchema,
      problems: ['unknown_user'],
      run: ({ query }) => show(identityOf(query)),
    }),
    defineOperation({
      method: 'POST',
      path: 'profiles/rebuild',
      role: 'admin',
      summary: 'Forgets all profiles and applies the stored events again',
      body: z.strictObject({
        dryRun: z.boolean().default(false).meta({ description: 'Only says what would be lost.' }),
        confirm: z.boolean().default(false).meta({ description: 'Goes on although something is lost.' }),
      }),
      answer: rebuildSchema,
      dryRun: rebuildSchema,
      problems: ['rebuild_loses'],
      run: async ({ body: { dryRun, confirm } }) => {
        if (dryRun) return new DryRunResult(rebuildView(await users.rebuild({ dryRun })));
        if (!confirm) {
          const report = await users.rebuild({ dryRun: true });
          if (report.poorer > 0) throw lossOf(report);
        }
        return rebuildView(await users.rebuild({ dryRun: false }));
      },
    }),
  ];
}

function unknownUser(id: UserIdentity): Problem {
  const whom = 'userId' in id ? `the userId ${show(id.userId)}` : `the anonymousId ${show(id.anonymousId)}`;
  const fault = faultOf('userId' in id ? id.userId : id.anonymousId);
  if (fault !== undefined) {
    const hint = `No profile has ${whom}: an id ${fault}.`;
    return new Problem('unknown_user', { hint });
  }
  const hint = `No profile has ${whom}: no event named it, or it was deleted, or profiles are off (profiles: auto turns them on), or the event is a moment old.`;
  return new Problem('unknown_user', { hint });
}

function lossOf({ poorer, eventsSince }: { poorer: number; eventsSince?: number }): Problem {
  const since =
    eventsSince === undefined ? 'no event is stored' : `events since ${isoTime(eventsSince)} are stored`;
  const hint = `${poorer} profiles have older events than that (${since}). Send it again with confirm: true to go on.`;
  return new Problem('rebuild_loses', { hint });
}

const show = (text: string) => JSON.stringify(text.length <= 100 ? text : `${text.slice(0, 100)}…`);

function profileView(
  { sources, firstSeenAt, lastSeenAt, merges, refusedMerges, consent, ...rest }: Profile,
  settings: SettingsSnapshot,
) {
  const nameOf = sourceNames(settings);
  return {
    ...rest,
    formerUserIds: [...rest.formerUserIds],
    sources: sources.map(nameOf),
    firstSeenAt: isoTime(firstSeenAt),
    lastSeenAt: isoTime(lastSeenAt),
    ...(consent !== undefined && {
      consent: { categories: [...consent.categories], at: isoTime(consent.at) },
    }),
    merges: merges.map(({ at, ...merge }) => ({ ...merge, at: isoTime(at) })),
    refusedMerges: {
      count: refusedMerges.count,
      samples: refusedMerges.samples.map(({ at, source, ...one }) => ({
        ...{ ...one, source: nameOf(source), at: isoTime(at) },
      })),
    },
  };
}

function rebuildView({ eventsSince, ...rest }: Awaited<ReturnType<Users['rebuild']>>) {
  return { ...rest, ...defined({ eventsSince: isoTime(eventsSince) }) };
}
