import { answered } from './answered.ts';
import { count, printable } from './column.ts';
import type { ControlFlags } from './control-api.ts';
import { type Paint, paintFor } from './paint.ts';
import { canBeAsked, isConfirmed } from './question.ts';
import type { ExitCode, RunContext } from './run-context.ts';

export interface ProfileOptions extends ControlFlags {
  /** The argument of the verb. */
  readonly user: string;
  /** The argument is an anonymousId. */
  readonly anonymousId?: boolean;
  readonly json?: boolean;
}

export interface MergesOptions extends ControlFlags {
  readonly json?: boolean;
}

export interface RebuildOptions extends ControlFlags {
  readonly dryRun?: boolean;
  /** True to go on without a question. */
  readonly yes?: boolean;
  readonly json?: boolean;
}

/** The answer of `GET /api/v1/profiles/{userId}`. */
export interface ShownProfile {
  readonly userId?: string;
  readonly formerUserIds: readonly string[];
  readonly anonymousIds: readonly string[];
  readonly externalIds: Readonly<Record<string, readonly string[]>>;
  readonly traits: Readonly<Record<string, unknown>>;
  readonly computedTraits: Readonly<Record<string, unknown>>;
  readonly audiences: readonly string[];
  readonly groups: readonly string[];
  /** Absent in answers of earlier servers, and where nothing was said of it. */
  readonly consent?: { readonly categories: readonly string[]; readonly at: string };
  readonly leftOut: number;
  readonly sources: readonly string[];
  readonly firstSeenAt: string;
  readonly lastSeenAt: string;
  readonly merges: readonly {
    readonly rule: 'identify' | 'alias' | 'external';
    readonly identity: { readonly kind: string; readonly value: string };
    readonly messageId: string;
    readonly at: string;
  }[];
  /** Absent in answers of earlier servers. */
  readonly refusedMerges?: {
    readonly count: number;
    readonly samples: readonly {
      readonly rule: string;
      readonly reason: string;
      readonly source: string;
      readonly at: string;
      readonly identity?: { readonly kind: string; readonly value: string };
      readonly messageId?: string;
    }[];
  };
}

/** The answer of `POST /api/v1/profiles/rebuild`. */
interface ShownRebuild {
  readonly profiles: number;
  readonly events: number;
  readonly eventsSince?: string;
  readonly poorer: number;
}

/** `millrace profile USER`: shows what the server knows of a user. spec/contract.md, "Verbs that ask". */
export async function profile(options: ProfileOptions, context: RunContext): Promise<ExitCode> {
  const { user, anonymousId = false } = options;
  const reply = await answered(options, context, {
    method: 'GET',
    // By query, because a path cannot carry `..`.
    path: 'profiles',
    query: anonymousId ? { anonymousId: user } : { userId: user },
  });
  if (typeof reply === 'number') return reply;
  if (options.json) context.out.write(`${reply.text}\n`);
  else context.out.write(profileReport(reply.value as ShownProfile, paintFor(context.out, context.env)));
  return 0;
}

const LABEL = 16;
/** Characters of a value that are shown. */
const VALUE = 200;

/**
 * Formats a profile for a terminal.
 *
 * ```
 * ann  user
 * seen            2026-11-20T08:00:00.000Z to 2026-11-22T12:00:00.000Z, by website
 * anonymous ids   5f0c2a9e
 * traits          plan "pro"
 * audiences       buyers
 * merged          alias of anonymous 5f0c2a9e at 2026-11-20T08:00:00.000Z, event m2
 * ```
 */
export function profileReport(shown: ShownProfile, paint: Paint): string {
  const { userId, anonymousIds, traits, computedTraits } = shown;
  const name = userId ?? anonymousIds[0] ?? Object.values(shown.externalIds)[0]?.[0] ?? '';
  const lines: [string, readonly string[]][] = [
    ['seen', [`${shown.firstSeenAt} to ${shown.lastSeenAt}, by ${shown.sources.map(printable).join(', ')}`]],
    ['former userIds', shown.formerUserIds],
    ['anonymous ids', anonymousIds],
    ...Object.entries(shown.externalIds),
    ['traits', pairs(traits)],
    ['computed', pairs(computedTraits)],
    ['audiences', shown.audiences],
    ['groups', shown.groups],
    ['consent', consentLines(shown.consent)],
    [
      'left out',
      shown.leftOut === 0
        ? []
        : [`${count(shown.leftOut)} of the traits and groups that calls have named: too long, or too many`],
    ],
    [
      'merged',
      shown.merges.map(
        ({ rule, identity, messageId, at }) =>
          `${rule} of ${identity.kind} ${identity.value} at ${at}, event ${messageId}`,
      ),
    ],
    ['not merged', refusedLines(shown.refusedMerges)],
  ];
  return [
    `${paint.bold(printable(name))}  ${userId === undefined ? 'not known by a userId' : 'user'}`,
    ...lines.flatMap(([label, values]) =>
      values.map(
        (value, nth) =>
          `${paint.dim((nth === 0 ? printable(label) : '').padEnd(LABEL))}${printable(value.slice(0, VALUE))}`,
      ),
    ),
    '',
  ].join('\n');
}

const REASONS: Readonly<Record<string, string>> = {
  belongs_to_another_user: 'it belongs to another user',
  alias_off: 'identities.alias is refuse',
  too_many_ids: 'the profile would have too many ids',
  unproven: 'only a client source says so',
  split: 'they are kept apart by a split',
};

function consentLines(consent: ShownProfile['consent']): string[] {
  if (consent === undefined) return [];
  const { categories, at } = consent;
  return [`${categories.length === 0 ? 'to nothing' : `to ${categories.join(', ')}`}, at ${at}`];
}

function refusedLines({ count: all, samples } = NONE_REFUSED): string[] {
  const shown = samples.map(({ rule, reason, source, at, identity, messageId }) => {
    const what = identity === undefined ? 'an id' : `${identity.kind} ${identity.value}`;
    const event = messageId === undefined ? '' : `, event ${messageId}`;
    return `${rule} of ${what} at ${at} by ${source}${event}: ${REASONS[reason] ?? reason}`;
  });
  const more = all - samples.length;
  return more > 0 ? [...shown, `and ${count(more)} more times`] : shown;
}

const NONE_REFUSED: NonNullable<ShownProfile['refusedMerges']> = { count: 0, samples: [] };

function pairs(values: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(values).map(([name, value]) => `${name} ${JSON.stringify(value)}`);
}

/** `millrace profiles rebuild`: applies the stored events again. Asks when something would be lost. */
export async function rebuildProfiles(options: RebuildOptions, context: RunContext): Promise<ExitCode> {
  const { dryRun = false, yes = false, json = false } = options;
  const ask = (body: object) =>
    answered(options, context, { method: 'POST', path: 'profiles/rebuild', body });
  const preview = await ask({ dryRun: true });
  if (typeof preview === 'number') return preview;
  const report = preview.value as ShownRebuild;
  if (dryRun) {
    context.out.write(json ? `${preview.text}\n` : `${rebuildReport(report)}\n`);
    return 0;
  }
  if (!yes) {
    context.err.write(`${rebuildReport(report)}\n`);
    if (!canBeAsked(context) && report.poorer > 0) {
      context.err.write('millrace: nothing was changed; --yes goes on all the same.\n');
      return 1;
    }
    if (canBeAsked(context) && !(await isConfirmed('Rebuild all profiles?', context))) {
      context.err.write('millrace: nothing was changed.\n');
      return 1;
    }
  }
  const reply = await ask({ confirm: true });
  if (typeof reply === 'number') return reply;
  if (json) context.out.write(`${reply.text}\n`);
  else
    context.out.write(
      `${count(report.events)} events are applied again; millrace status shows how far it is.\n`,
    );
  return 0;
}

/** The answer of `GET /api/v1/merges`. */
interface ShownMerges {
  readonly data: readonly {
    readonly userId: string;
    readonly formerUserId: string;
    readonly merge: ShownProfile['merges'][number] | null;
  }[];
  readonly undecided: number;
  readonly next: string | null;
}

/** `millrace profiles merges`: userIds that would not be joined today. Ends with 1 when there are some. */
export async function doubtfulMerges(options: MergesOptions, context: RunContext): Promise<ExitCode> {
  const pages: ShownMerges[] = [];
  for (let next: string | null | undefined; next !== null; next = pages.at(-1)!.next) {
    const query = next === undefined ? {} : { cursor: next };
    const reply = await answered(options, context, { method: 'GET', path: 'merges', query });
    if (typeof reply === 'number') return reply;
    pages.push(reply.value as ShownMerges);
  }
  const data = pages.flatMap((page) => page.data);
  const undecided = pages.reduce((sum, page) => sum + page.undecided, 0);
  context.out.write(
    options.json === true ? `${JSON.stringify({ data, undecided })}\n` : mergesReport(data, undecided),
  );
  return data.length === 0 ? 0 : 1;
}

function mergesReport(data: ShownMerges['data'], undecided: number): string {
  const lines = data.map(({ userId, formerUserId, merge }) => {
    const by =
      merge === null
        ? ''
        : `: ${merge.rule} of ${merge.identity.kind} ${printable(merge.identity.value)} at ${merge.at}, event ${printable(merge.messageId)}`;
    return `${printable(formerUserId)} is ${printable(userId)}${by}`;
  });
  const none = data.length === 0 ? ['Every user of whom events are stored would be joined again.'] : [];
  const left =
    undecided === 0
      ? []
      : [`${count(undecided)} userIds cannot be judged: no stored event has them as its userId.`];
  return [...none, ...lines, ...left, ''].join('\n');
}

function rebuildReport({ profiles, events, eventsSince, poorer }: ShownRebuild): string {
  const since = eventsSince === undefined ? '' : ` (since ${eventsSince})`;
  const loss =
    poorer === 0
      ? 'nothing is lost'
      : `${count(poorer)} of them have older events; what only those said is lost`;
  return `${count(profiles)} profiles are made anew of ${count(events)} stored events${since}: ${loss}.`;
}
