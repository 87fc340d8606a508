import { type AskedFor, answered } from './answered.ts';
import { count, counted, printable } from './column.ts';
import type { ControlFlags } from './control-api.ts';
import { canBeAsked, isConfirmed } from './question.ts';
import type { ExitCode, RunContext } from './run-context.ts';

export interface SplitOptions extends ControlFlags {
  readonly user: string;
  readonly other: string;
  /** `other` is an anonymousId. */
  readonly anonymousId?: boolean;
  /** `other` is the value of this trait. */
  readonly external?: string;
  readonly dryRun?: boolean;
  /** Does not ask. */
  readonly yes?: boolean;
  readonly json?: boolean;
}

/** The answer of `POST /api/v1/splits`. */
export interface ShownSplit {
  readonly profiles: readonly {
    readonly userId?: string;
    readonly formerUserIds: readonly string[];
    readonly anonymousIds: readonly string[];
    readonly externalIds: Readonly<Record<string, readonly string[]>>;
    readonly events: number;
  }[];
  readonly told: readonly {
    readonly userId?: string;
    readonly anonymousId?: string;
    readonly key: string;
    readonly value: unknown;
    readonly destinations?: readonly string[];
  }[];
  readonly poorer: boolean;
}

/**
 * `millrace profiles split USER OTHER`: keeps two ids apart. Shows what comes of it, and asks before it does
 * it.
 */
export async function splitProfile(options: SplitOptions, context: RunContext): Promise<ExitCode> {
  const { dryRun = false, yes = false, json = false } = options;
  const ask = (more: object) => answered(options, context, requestOf(options, more));
  const foreseen = await ask({ dryRun: true });
  if (typeof foreseen === 'number') return foreseen;
  const report = splitReport(foreseen.value as ShownSplit);
  if (dryRun) {
    context.out.write(json ? `${foreseen.text}\n` : report);
    return 0;
  }
  if (!yes) {
    context.err.write(report);
    if (!canBeAsked(context)) {
      context.err.write('millrace: nothing was changed; --yes goes on.\n');
      return 1;
    }
    if (!(await isConfirmed('Keep these two apart from now on?', context))) {
      context.err.write('millrace: nothing was changed.\n');
      return 1;
    }
  }
  const reply = await ask({ confirm: true });
  if (typeof reply === 'number') return reply;
  context.out.write(json ? `${reply.text}\n` : splitReport(reply.value as ShownSplit));
  return 0;
}

function requestOf({ user, other, anonymousId = false, external }: SplitOptions, more: object): AskedFor {
  const second =
    external !== undefined
      ? { external: { trait: external, value: other } }
      : anonymousId
        ? { anonymousId: other }
        : { userId: other };
  return { path: 'splits', method: 'POST', body: { ids: [{ userId: user }, second], ...more } };
}

/** Lines that say which profiles a split makes, and what destinations hear. */
export function splitReport({ profiles, told, poorer }: ShownSplit): string {
  const none = ['They are ids of two profiles already, and stay so.'];
  const lines = profiles.map(({ userId, formerUserIds, anonymousIds, externalIds, events }) => {
    const ids = [...formerUserIds, ...anonymousIds, ...Object.values(externalIds).flat()];
    const shown = ids.slice(0, SHOWN_IDS).map(printable).join(', ');
    const more = ids.length > SHOWN_IDS ? ` and ${count(ids.length - SHOWN_IDS)} more` : '';
    const name = userId === undefined ? 'somebody without a userId' : printable(userId);
    return `${name}: ${counted(events, 'stored event')}${ids.length === 0 ? '' : `, with ${shown}${more}`}`;
  });
  const heard = told.map(({ userId, anonymousId, key, value, destinations }) => {
    const who = printable(userId ?? anonymousId ?? '');
    const to =
      destinations === undefined ? 'every destination of it' : destinations.map(printable).join(', ');
    return `${to} hears: ${who} ${printable(key)} ${printable(JSON.stringify(value))}`;
  });
  return [
    ...(profiles.length === 0 ? none : lines),
    ...(told.length === 0 ? ['No destination hears anything.'] : heard),
    ...(poorer ? ['Some events of the profile are not stored any more: what only those said is lost.'] : []),
    '',
  ].join('\n');
}

/** Most ids that are shown of each profile. */
const SHOWN_IDS = 20;
