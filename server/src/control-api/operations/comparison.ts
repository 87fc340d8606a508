import * as z from 'zod';
import type { Source } from '../../model/settings.ts';
import { isoTime, type Time } from '../../model/time.ts';
import type { SettingsSnapshot } from '../../ports/settings-store.ts';
import {
  COMPARISON_RULES,
  type ComparisonRequest,
  type ComparisonRule,
  type SourceComparison,
  TooManyUnmatched,
} from '../../reporting/comparison/contract.ts';
import { textInQuery } from '../ids.ts';
import { type ApiOperation, type Described, defineOperation } from '../operation.ts';
import { timeParameter } from '../pagination.ts';
import { Problem } from '../problem.ts';
import { FILTERED, outsideToken } from '../token-limits.ts';
import { unknownName } from '../unknown-name.ts';

export interface ComparisonDependencies {
  readonly settings: { now(): SettingsSnapshot };
  /** Compares as soon as no other comparison runs. Rejects when the signal is aborted. */
  readonly compare: (request: ComparisonRequest, gone: AbortSignal) => Promise<SourceComparison>;
  readonly now: () => Time;
}

const RULES = Object.keys(COMPARISON_RULES) as ComparisonRule[];

const comparisonQuery = z.object({
  a: textInQuery.meta({ description: 'The name of a source.' }),
  b: textInQuery.meta({
    description:
      'The name of another one. What the rules say of the other service holds for the shadow of the two, or for `a`.',
  }),
  from: timeParameter.meta({ description: 'Calls that arrived at this time or later.' }),
  to: timeParameter
    .exactOptional()
    .meta({ description: 'Calls that arrived before this time. Absent: now.' }),
  without: z
    .string()
    .default('')
    .transform((text): ComparisonRule[] => text.split(',').filter(Boolean) as ComparisonRule[])
    .refine((rules) => rules.every((rule) => RULES.includes(rule)), {
      error: `must be rules with commas between them: ${RULES.join(', ')}`,
    })
    .meta({ description: `Rules that are switched off, with commas between them: ${RULES.join(', ')}.` }),
});

const value = z.unknown().meta({ description: 'Null where the field is not there.' });

const comparisonSchema = z.object({
  there: z.string().meta({ description: 'The source of the service that is to be replaced.' }),
  here: z.string(),
  from: z.string(),
  to: z.string(),
  equal: z.int().meta({ description: 'Calls that both have, the same but for what the rules allow.' }),
  different: z.int(),
  missing: z
    .object({ there: z.int(), here: z.int() })
    .meta({ description: 'Calls that one side does not have.' }),
  waiting: z.int().meta({ description: 'Calls of one side that the other may still get.' }),
  apart: z.object({ computed: z.int(), suppressed: z.int(), protocols: z.int() }).meta({
    description:
      'Counted apart: events of audiences and traits; calls of users who are suppressed here; calls to which a tracking plan has added something there.',
  }),
  unreadable: z.int().meta({ description: 'Calls that are damaged, or were erased meanwhile.' }),
  differences: z.array(
    z.object({
      event: z.string(),
      field: z.string(),
      count: z.int(),
      examples: z.array(z.object({ messageId: z.string(), there: value, here: value })),
    }),
  ),
  absences: z.array(
    z.object({
      event: z.string(),
      missing: z.enum(['there', 'here']),
      count: z.int(),
      messageIds: z.array(z.string()),
    }),
  ),
  truncated: z.boolean().meta({ description: 'There are more groups than are shown, the rarest of all.' }),
  rules: z.array(z.object({ name: z.string(), about: z.string(), on: z.boolean() })),
});

/** spec/contract.md, "Comparison of two sources". */
export function comparisonOperations({ settings, compare, now }: ComparisonDependencies): ApiOperation[] {
  return [
    defineOperation({
      method: 'GET',
      path: 'compare',
      role: 'viewer',
      summary:
        'Compares what two sources have of the same calls: equal, different by event and field, missing on either side',
      query: comparisonQuery,
      answer: comparisonSchema,
      problems: ['unknown_name', 'outside_token'],
      showsBodies: true,
      isWithin: FILTERED,
      run: async ({ query, client: { caller, gone } }) => {
        const { from, to = now(), without } = query;
        const { limits } = caller ?? {};
        for (const name of [query.a, query.b])
          if (limits?.sources.includes(name) === false) throw outsideToken(limits);
        const [there, here] = sidesOf(query, settings.now());
        if (from >= to) throw refused('from', 'must be before to');
        const rules = new Set(RULES.filter((rule) => !without.includes(rule)));
        try {
          const found = await compare({ there: there.id, here: here.id, from, to, rules }, gone);
          return viewOf(found, { there, here, from, to, rules });
        } catch (error) {
          if (!(error instanceof TooManyUnmatched)) throw error;
          const message =
            'must be nearer: too many calls of this time have no partner to compare them all at once';
          throw refused('to', message);
        }
      },
    }),
  ];
}

function refused(key: string, message: string): Problem {
  return new Problem('invalid_parameters', { errors: [{ path: `query.${key}`, message }] });
}

/** The source of the other service, and ours. */
function sidesOf(
  { a, b }: { readonly a: string; readonly b: string },
  { sources, gone }: SettingsSnapshot,
): readonly [Source, Source] {
  if (a === b) {
    const message =
      'must be another source: what is forwarded into the same source is a duplicate there, and a comparison cannot see it';
    throw refused('b', message);
  }
  const [one, other] = [a, b].map((name) => {
    const found = [...sources, ...gone.sources].find((source) => source.name === name);
    if (found === undefined) throw unknownName(name, 'source', sources);
    return found;
  }) as [Source, Source];
  return other.shadow === true && one.shadow !== true ? [other, one] : [one, other];
}

interface Asked {
  readonly there: Source;
  readonly here: Source;
  readonly from: Time;
  readonly to: Time;
  readonly rules: ReadonlySet<ComparisonRule>;
}

function viewOf(
  { differences, absences, missing, apart, isCut, ...counts }: SourceComparison,
  { there, here, from, to, rules }: Asked,
): Described<z.output<typeof comparisonSchema>> {
  return {
    ...{ there: there.name, here: here.name, from: isoTime(from), to: isoTime(to) },
    ...counts,
    missing: { ...missing },
    apart: { ...apart },
    differences: differences.map(({ examples, ...rest }) => ({
      ...rest,
      examples: examples.map((one) => ({
        messageId: one.messageId,
        there: one.there ?? null,
        here: one.here ?? null,
      })),
    })),
    absences: absences.map((one) => ({ ...one, messageIds: [...one.messageIds] })),
    truncated: isCut,
    rules: RULES.map((name) => ({ name, about: COMPARISON_RULES[name], on: rules.has(name) })),
  };
}
