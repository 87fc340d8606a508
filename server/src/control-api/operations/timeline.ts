import * as z from 'zod';
import { DAY, type Duration, HOUR, isoTime, MINUTE, SECOND, type Time } from '../../model/time.ts';
import type { Clock } from '../../ports/clock.ts';
import type { SettingsSnapshot } from '../../ports/settings-store.ts';
import {
  type FailureGroup,
  TIMELINE_SERIES,
  type TimelineGroup,
  type TimelineQuery,
  type TimelineReport,
  type TimelineSeries,
} from '../../reporting/contract.ts';
import { textInQuery } from '../ids.ts';
import { type ApiOperation, defineOperation, type Shape } from '../operation.ts';
import { timeParameter } from '../pagination.ts';
import { Problem } from '../problem.ts';
import { destinationByName } from '../records.ts';
import { ASKED_DESTINATION, NAMED_DESTINATION } from '../token-limits.ts';
import { unknownName } from '../unknown-name.ts';

export interface TimelineOperationDependencies {
  readonly settings: { now(): SettingsSnapshot };
  readonly clock: Clock;
  readonly timeline: (query: TimelineQuery) => Promise<TimelineReport>;
  readonly failureGroups: (report: TimelineReport) => FailureGroup[];
}

/** Rows are kept so long. */
const LONGEST: Duration = 7 * DAY;
const RANGE_UNITS = { s: SECOND, m: MINUTE, h: HOUR, d: DAY } as const;
const MAX_STEPS = 1500;

/** The first that makes at most 90 steps is taken where the request names none. */
const USUAL_STEPS: readonly Duration[] = [10 * SECOND, MINUTE, 5 * MINUTE, 20 * MINUTE, 2 * HOUR];
const USUAL_NUMBER = 90;

const STEP_RULE = 'must be a number of seconds that is a multiple of 10';
const SERIES_RULE = `must be names with commas between them, out of ${TIMELINE_SERIES.join(', ')}`;

const RANGE_RULE = 'must be a whole number with s, m, h or d behind it, such as 15m or 7d, of at most 7 days';

const rangeFields = {
  range: z
    .string()
    .regex(/^[1-9]\d{0,6}[smhd]$/, RANGE_RULE)
    .transform((text) => Number(text.slice(0, -1)) * RANGE_UNITS[text.at(-1) as keyof typeof RANGE_UNITS])
    .refine((range) => range <= LONGEST, RANGE_RULE)
    .exactOptional()
    .meta({ description: 'How long before `to` it begins, such as `15m` or `7d`; in place of `from`.' }),
  from: timeParameter
    .exactOptional()
    .meta({ description: 'An hour before `to` when absent; at most 7 days.' }),
  to: timeParameter.exactOptional().meta({ description: 'Now when absent.' }),
};

const timelineQuery = z.object({
  ...rangeFields,
  step: z.coerce
    .number(STEP_RULE)
    .int(STEP_RULE)
    .min(10, STEP_RULE)
    .max(LONGEST / SECOND, STEP_RULE)
    .multipleOf(10, STEP_RULE)
    .exactOptional()
    .meta({
      description:
        'Seconds, a multiple of 10, for at most 1,500 steps. Steps that are not whole minutes have numbers for the last 15 ' +
        'minutes only. When absent, one that makes at most 90 steps.',
    }),
  series: z
    .string()
    .transform((text) => text.split(','))
    .pipe(z.array(z.enum(TIMELINE_SERIES, SERIES_RULE)))
    .exactOptional()
    .meta({ description: 'Names with commas between them; all when absent.' }),
  by: z.enum(['source', 'destination', 'endpoint']).exactOptional().meta({
    description: 'One group for each of them; one group for everything when absent.',
  }),
  source: textInQuery.min(1).exactOptional().meta({ description: 'Only calls of this source.' }),
  destination: textInQuery.min(1).exactOptional().meta({ description: 'Only deliveries to this one.' }),
});

const numberOrNull = z.number().nullable();

const groupSchema = z.object({
  source: z.string().exactOptional(),
  destination: z.string().exactOptional(),
  endpoint: z.string().exactOptional(),
  totals: z.record(z.string(), numberOrNull),
  series: z.record(z.string(), z.array(numberOrNull)),
  now: z.record(z.string(), numberOrNull),
  reasons: z.record(z.string(), z.record(z.string(), z.number())),
} satisfies Shape<TimelineGroup>);

const timelineSchema = z.object({
  from: z.string(),
  to: z.string(),
  step: z.int(),
  groups: z.array(groupSchema),
} satisfies Shape<TimelineReport>);

const failureSchema = z.object({
  endpoint: z.string(),
  reason: z.string(),
  count: z.int(),
  message: z.string(),
  hint: z.string(),
} satisfies Shape<FailureGroup>);

/** spec/contract.md, "Timeline". */
export function timelineOperations({
  settings,
  clock,
  timeline,
  failureGroups,
}: TimelineOperationDependencies): ApiOperation[] {
  return [
    defineOperation({
      method: 'GET',
      path: 'timeline',
      role: 'viewer',
      isInMemory: true,
      isWithin: ASKED_DESTINATION,
      summary: 'Shows numbers over time: calls, deliveries, requests and how long they took',
      query: timelineQuery,
      answer: timelineSchema,
      problems: ['unknown_name'],
      run: async ({ query: { range, from, to, step, series = TIMELINE_SERIES, ...wish } }) => {
        refuseUnknownNames(wish, settings.now());
        const times = timesOf({ range, from, to }, clock.now());
        return await timeline({ ...wish, ...times, series, step: stepOf(step, times) });
      },
    }),
    defineOperation({
      method: 'GET',
      path: 'destinations/:name/failures',
      role: 'viewer',
      isInMemory: true,
      isWithin: NAMED_DESTINATION,
      summary:
        'Shows the failed requests of a destination by endpoint and reason, with what to do about each',
      query: z.object(rangeFields),
      answer: z.object({ from: z.string(), to: z.string(), requests: z.int(), data: z.array(failureSchema) }),
      problems: ['unknown_name'],
      run: async ({ names, query }) => {
        const { name } = destinationByName(names['name'] ?? '', settings.now());
        const times = timesOf(query, clock.now());
        const series: TimelineSeries[] = ['requests', 'failed'];
        const report = await timeline({ ...times, step: MINUTE, by: 'endpoint', destination: name, series });
        const requests = report.groups.reduce((sum, { totals }) => sum + (totals['requests'] ?? 0), 0);
        return { from: isoTime(times.from), to: isoTime(times.to), requests, data: failureGroups(report) };
      },
    }),
  ];
}

interface TimeRange {
  readonly from: Time;
  readonly to: Time;
}

interface AskedTimes extends Partial<Record<keyof TimeRange, Time | undefined>> {
  readonly range?: Duration | undefined;
}

function timesOf({ range, ...asked }: AskedTimes, now: Time): TimeRange {
  const to = asked.to ?? now;
  const from = asked.from ?? to - (range ?? HOUR);
  const message = faultOf({ from, to }, asked.from !== undefined && range !== undefined);
  if (message !== undefined)
    throw new Problem('invalid_parameters', { errors: [{ path: 'query.from', message }] });
  return { from, to };
}

function faultOf({ from, to }: TimeRange, hasBoth: boolean): string | undefined {
  if (hasBoth) return 'must be absent beside `range`, which says the same';
  if (from >= to) return 'must be before `to`';
  return to - from > LONGEST ? 'must be at most 7 days before `to`' : undefined;
}

function stepOf(asked: number | undefined, { from, to }: TimeRange): Duration {
  const range = to - from;
  if (asked === undefined) {
    const usual = USUAL_STEPS.find((step) => range / step <= USUAL_NUMBER) ?? USUAL_STEPS.at(-1)!;
    return usual;
  }
  const step = asked * SECOND;
  if (range / step <= MAX_STEPS) return step;
  const message = `makes more than ${MAX_STEPS} steps of this range; ${Math.ceil(range / SECOND / MAX_STEPS / 60) * 60} is enough`;
  throw new Problem('invalid_parameters', { errors: [{ path: 'query.step', message }] });
}

/** A mistyped name would have no numbers, and look like a quiet hour. Removed records keep theirs. */
function refuseUnknownNames(
  { source, destination }: Pick<TimelineQuery, 'source' | 'destination'>,
  { sources, destinations, gone }: SettingsSnapshot,
): void {
  const isIn = (name: string, records: readonly { readonly name: string }[]) =>
    records.some((record) => record.name === name);
  if (source !== undefined && !isIn(source, [...sources, ...gone.sources]))
    throw unknownName(source, 'source', sources);
  if (destination !== undefined && !isIn(destination, [...destinations, ...gone.destinations]))
    throw unknownName(destination, 'destination', destinations);
}
