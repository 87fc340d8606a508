import * as z from 'zod';
import { defined } from '../../model/json.ts';
import {
  type IdJoin,
  type NotificationStatus,
  REGULATION_STATUSES,
  REGULATION_TYPES,
  type Regulation,
  type RegulationSubject,
  type Suppression,
} from '../../model/regulation.ts';
import { sourceNames } from '../../model/settings.ts';
import { isoTime } from '../../model/time.ts';
import type { SettingsSnapshot } from '../../ports/settings-store.ts';
import type { RegulationRequest, RegulationRequests } from '../../regulations/contract.ts';
import { faultOf, idAsJson, idInBody, idInQuery } from '../ids.ts';
import {
  type ApiOperation,
  type Described,
  DryRunResult,
  defineOperation,
  type OperationInput,
} from '../operation.ts';
import { invalidCursor, pageQuery, pageSchema, parseNumberCursor } from '../pagination.ts';
import { Problem } from '../problem.ts';

export interface RegulationOperationDependencies {
  readonly regulations: RegulationRequests;
  readonly erasedFrom: ErasedFrom;
  readonly settings: { now(): SettingsSnapshot };
}

/** Places that hold nothing of erased users any more. A database keeps copies of its tables for a while. */
const ERASED_FROM = ['files', 'tables'] as const;

export type ErasedFrom = (typeof ERASED_FROM)[number];

/** Ids in one regulation at most. spec/specification.md, "Limits". */
export const MAX_SUBJECTS = 5000;

const regulationInput = z.strictObject({
  type: z.enum(REGULATION_TYPES),
  subjectIds: z
    .array(idInBody)
    .max(MAX_SUBJECTS)
    .default([])
    .meta({ description: 'UserIds, taken as they are. One that is there twice counts once.' }),
  anonymousIds: z
    .array(idInBody)
    .max(MAX_SUBJECTS)
    .default([])
    .meta({
      description:
        'Anonymous ids of visitors without a userId: at least one id is needed, and there may be 5,000 of both kinds. Of one that ' +
        'belongs to a user nothing is done.',
    }),
  dryRun: z
    .boolean()
    .default(false)
    .meta({ description: 'Only checks the request, and says what it would find.' }),
  confirm: z.boolean().default(false).meta({
    description:
      'Takes along userIds that calls of client sources alone have joined to these, which are left out otherwise.',
  }),
  silent: z.boolean().default(false).meta({
    description: 'Tells no destination: only what is stored here is erased.',
  }),
});

const joinRuleSchema = z.enum(['identify', 'alias', 'external']);

const joinSchema = z.object({
  kind: z.enum(['user', 'anonymous']),
  value: z.string(),
  rule: joinRuleSchema.nullable().meta({
    description:
      '`identify`: an event has both ids; `alias`: one names it as previousId; `external`: both had an external id. Null where nothing ' +
      'that is stored says it.',
  }),
  source: z
    .string()
    .nullable()
    .meta({ description: 'The source of the event that joined it; null where the event is gone.' }),
  messageId: z.string().nullable().meta({ description: 'Of that event.' }),
  at: z.string().nullable().meta({ description: 'When it happened.' }),
});

const subjectSchema = z.object({
  userId: z.string().exactOptional(),
  anonymousId: z.string().exactOptional().meta({ description: 'That of a visitor without a userId.' }),
  formerUserIds: z.array(z.string()).meta({
    description: 'Further userIds that are erased or suppressed with it; empty until they are known.',
  }),
  anonymousIds: z.array(z.string()).meta({
    description: 'Anonymous ids that are erased or suppressed with it; empty until they are known.',
  }),
  joins: z.array(joinSchema).meta({ description: 'What joined each of these ids.' }),
  leftOut: z.array(joinSchema).meta({
    description:
      'Further userIds of the same profile of which nothing is done, because calls of client sources alone have joined them; `confirm` ' +
      'takes them along.',
  }),
  outcome: z
    .enum(['belongs_to_a_user'])
    .exactOptional()
    .meta({ description: 'Why nothing is done of an anonymous id.' }),
  unknown: z.boolean().nullable().meta({ description: 'Whether it names nobody; null until that is known.' }),
});

const countsSchema = z.object({ events: z.int(), deliveries: z.int(), deadLetters: z.int() });

const streamSchema = z.object({
  source: z.string(),
  destination: z.string(),
  endpoint: z.string().meta({ description: 'Its URL, without what may be secret in it.' }),
  status: z.enum(REGULATION_STATUSES),
  sent: z.int().meta({ description: 'Delete notifications that it is to get.' }),
  confirmed: z.int().meta({ description: 'Those that it has accepted.' }),
  confirmedAt: z.string().exactOptional().meta({ description: 'When it accepted the last of them.' }),
  answer: z
    .object({
      status: z.int().exactOptional(),
      reason: z.string().exactOptional().meta({ description: 'Why the last request failed.' }),
      body: z
        .string()
        .exactOptional()
        .meta({ description: 'The beginning of a refusal, without the user ids.' }),
    })
    .exactOptional()
    .meta({ description: 'The last answer.' }),
});

const regulationSchema = z.object({
  id: z.string(),
  type: z.enum(REGULATION_TYPES),
  overallStatus: z.enum(REGULATION_STATUSES),
  createdAt: z.string(),
  erasedAt: z.string().exactOptional().meta({
    description:
      'When what was stored of the users was gone; absent until then, and where nothing is erased.',
  }),
  erasedFrom: z.enum(ERASED_FROM).exactOptional().meta({
    description:
      'What holds nothing of them since `erasedAt`: the `files` of the data folder, or the `tables` of the database, whose write-ahead log, archives, standbys and base backups keep copies until they are recycled or removed.',
  }),
  finishedAt: z.string().exactOptional(),
  by: z.string(),
  silent: z.literal(true).exactOptional().meta({ description: 'It tells no destination.' }),
  subjects: z.int().meta({ description: 'Number of ids.' }),
  erased: countsSchema,
  unknown: z.int().nullable().meta({
    description:
      'Ids that name nobody: nothing is stored of them, or, to end a suppression, they are not suppressed. Null until that is known.',
  }),
  belongToUsers: z.int().exactOptional().meta({
    description:
      'Anonymous ids that belong to users: nothing of them is erased or suppressed. Absent until that is known, and where there are none.',
  }),
  joined: z
    .array(z.object({ rule: joinRuleSchema.nullable(), source: z.string().nullable(), ids: z.int() }))
    .exactOptional()
    .meta({
      description:
        'How many further ids were found joined to them, by rule and source; null where nothing that is stored says it. Absent until ' +
        'they are known.',
    }),
  leftOut: z
    .int()
    .exactOptional()
    .meta({
      description:
        'UserIds of their profiles of which nothing was done, because calls of client sources alone have joined them. Absent until that ' +
        'is known, and where there are none.',
    }),
  untold: z
    .array(z.string())
    .exactOptional()
    .meta({
      description:
        'Destinations that events of its users may have gone to and that hear nothing of it, because they pass calls on: delete ' +
        'the users in the service behind them too. Absent where there are none.',
    }),
  profiles: z.int().exactOptional().meta({ description: 'Profiles erased; absent until they are counted.' }),
  streamStatus: z.array(streamSchema),
  reason: z.string().exactOptional().meta({ description: 'Why it failed, with what to do.' }),
});

const suppressionSchema = z.object({
  userId: z.string().exactOptional().meta({ description: 'Absent where only its hash is kept.' }),
  since: z.string(),
  regulation: z.string().meta({ description: 'The id of the regulation that did it.' }),
});

/** spec/contract.md, "Regulations and suppressions". */
export function regulationOperations(dependencies: RegulationOperationDependencies): ApiOperation[] {
  return [...requestOperations(dependencies), ...suppressionOperations(dependencies)];
}

function requestOperations(dependencies: RegulationOperationDependencies): ApiOperation[] {
  const { regulations, erasedFrom } = dependencies;
  return [
    defineOperation({
      method: 'POST',
      path: 'regulations',
      role: 'admin',
      status: 201,
      summary: 'Deletes users, suppresses them, or ends their suppression',
      body: regulationInput,
      maxEntries: MAX_SUBJECTS,
      answer: regulationSchema,
      dryRun: z.object({
        type: z.enum(REGULATION_TYPES),
        subjects: z.int(),
        unknown: z.array(z.string()).meta({ description: 'Those that name nobody.' }),
        belongToUsers: z.array(z.string()).meta({
          description: 'Anonymous ids that belong to users: name the users to erase them.',
        }),
        found: z
          .array(subjectSchema)
          .meta({ description: 'Whom it would take, as `regulations/{id}/subjects` shows it.' }),
        events: z.int().meta({ description: 'Stored events that it would erase.' }),
        profiles: z.int().meta({ description: 'Profiles that it would erase.' }),
        destinations: z
          .array(z.string())
          .meta({ description: 'Names of the destinations that it would tell.' }),
      }),
      run: async ({ body, ...input }) => await createRegulation(body, input, dependencies),
    }),
    defineOperation({
      method: 'GET',
      path: 'regulations',
      role: 'viewer',
      summary: 'Lists regulations, the newest first',
      query: z.object(pageQuery),
      answer: pageSchema(regulationSchema),
      run: async ({ query: { limit, cursor } }) => {
        const found = await regulations.list(limit + 1, parseNumberCursor(cursor));
        const data = found.slice(0, limit);
        const next = found.length > limit ? String(data.at(-1)!.number) : null;
        return { data: data.map((one) => regulationView(one, erasedFrom)), next };
      },
    }),
    defineOperation({
      method: 'GET',
      path: 'regulations/:id',
      role: 'viewer',
      summary: 'The receipt of a regulation: what was erased, and which endpoints have confirmed it',
      answer: regulationSchema,
      problems: ['unknown_name'],
      run: async ({ names }) => {
        const id = names['id'] ?? '';
        const found = await regulations.get(id);
        if (found !== undefined) return regulationView(found, erasedFrom);
        throw noRegulation(id);
      },
    }),
    subjectsOperation(dependencies),
  ];
}

function subjectsOperation({ regulations, settings }: RegulationOperationDependencies): ApiOperation {
  return defineOperation({
    method: 'GET',
    path: 'regulations/:id/subjects',
    role: 'admin',
    summary:
      'The ids of a regulation, what was found joined to each, and which of them name nobody, until it ends; then none',
    answer: z.object({ data: z.array(subjectSchema) }),
    problems: ['unknown_name'],
    run: async ({ names }) => {
      const id = names['id'] ?? '';
      if ((await regulations.get(id)) === undefined) throw noRegulation(id);
      const subjects = await regulations.subjects(id);
      const nameOf = sourceNames(settings.now());
      return { data: subjects.map((subject) => subjectView(subject, nameOf)) };
    },
  });
}

function subjectView(subject: RegulationSubject, nameOfSource: (id: number) => string) {
  const { userId, anonymousId, formerUserIds, anonymousIds, isUnknown = null, belongsToUser } = subject;
  const { joins = [], leftOut = [] } = subject;
  const joinView = ({ kind, value, rule, source, messageId, at }: IdJoin) => ({
    ...{ kind, value, rule: rule ?? null, messageId: messageId ?? null },
    source: source === undefined ? null : nameOfSource(source),
    at: at === undefined ? null : isoTime(at),
  });
  return {
    ...defined({ userId, anonymousId }),
    ...{ formerUserIds: [...formerUserIds], anonymousIds: [...anonymousIds], unknown: isUnknown },
    ...{ joins: joins.map(joinView), leftOut: leftOut.map(joinView) },
    ...defined({ outcome: belongsToUser === true ? ('belongs_to_a_user' as const) : undefined }),
  };
}

function suppressionOperations({ regulations }: RegulationOperationDependencies): ApiOperation[] {
  return [
    defineOperation({
      method: 'GET',
      path: 'suppressions',
      role: 'viewer',
      summary:
        'Lists suppressed users whose ids are kept (SUPPRESS_ONLY), by their ids. With userId or userIdJson: that user, whether its ' +
        'id is kept or its hash. With anonymousId or anonymousIdJson: that visitor',
      query: z.object({
        userId: idInQuery.exactOptional(),
        userIdJson: idAsJson.exactOptional(),
        anonymousId: idInQuery.exactOptional(),
        anonymousIdJson: idAsJson.exactOptional(),
        ...pageQuery,
      }),
      answer: pageSchema(suppressionSchema),
      run: async ({ query: { limit, cursor, ...query } }) => {
        const { userId, userIdJson = userId, anonymousId, anonymousIdJson = anonymousId } = query;
        const asked = userIdJson ?? anonymousIdJson;
        if (asked !== undefined) {
          const one = await regulations.suppression(asked, userIdJson === undefined ? 'anonymous' : 'user');
          return { data: one === undefined ? [] : [suppressionView(one)], next: null };
        }
        const found = await regulations.suppressions(limit + 1, parseIdCursor(cursor));
        const data = found.slice(0, limit);
        const next = found.length > limit ? idCursorOf(data.at(-1)!.userId!) : null;
        return { data: data.map(suppressionView), next };
      },
    }),
    defineOperation({
      method: 'GET',
      path: 'suppressions/:userId',
      role: 'viewer',
      summary: 'Tells since when a user is suppressed',
      answer: suppressionSchema,
      problems: ['unknown_name'],
      run: async ({ names }) => {
        const found = await regulations.suppression(names['userId'] ?? '', 'user');
        if (found !== undefined) return suppressionView(found);
        throw new Problem('unknown_name', { hint: 'This user is not suppressed.' });
      },
    }),
  ];
}

async function createRegulation(
  { type, subjectIds, anonymousIds: visitors, dryRun, confirm, silent }: z.output<typeof regulationInput>,
  { by, repeat }: Pick<OperationInput, 'by' | 'repeat'>,
  { regulations, erasedFrom, settings }: RegulationOperationDependencies,
) {
  const [userIds, anonymousIds] = [[...new Set(subjectIds)], [...new Set(visitors)]];
  const subjects = userIds.length + anonymousIds.length;
  if (subjects === 0 || subjects > MAX_SUBJECTS)
    throw new Problem('invalid_parameters', {
      errors: [
        {
          path: 'body.subjectIds',
          message: `must have, with anonymousIds, at least one id and at most ${MAX_SUBJECTS.toLocaleString('en-US')}`,
        },
      ],
    });
  const request = { type, userIds, anonymousIds, confirm, silent };
  const named = { subjectIds, anonymousIds: visitors };
  if (dryRun) {
    await refuseUnknownFaults(named, request, regulations);
    const { found, ...foreseen } = await regulations.foresee(request);
    const nameOf = sourceNames(settings.now());
    const views = found.map((one) => subjectView(one, nameOf));
    return new DryRunResult({
      ...{ type, subjects, ...foreseen, found: views },
      destinations: [...foreseen.destinations],
    });
  }
  return regulationView(await makeRegulation(named, request, { by, repeat }, regulations), erasedFrom);
}

/** The ids of a request as they were named, with their places. */
type NamedIds = Readonly<Record<'subjectIds' | 'anonymousIds', readonly string[]>>;

/** The sender of a request, and what recognises it when it comes again. */
export type Requester = Pick<OperationInput, 'by'> & {
  readonly repeat?: OperationInput['repeat'] | undefined;
};

/** Makes a regulation, or finds the one that the same request has made. */
export async function makeRegulation(
  named: NamedIds,
  request: Omit<RegulationRequest, 'by'>,
  { by, repeat }: Requester,
  regulations: RegulationRequests,
): Promise<Regulation> {
  await refuseUnknownFaults(named, request, regulations);
  if (repeat === undefined) return await regulations.create({ ...request, by });
  const known = await regulations.repeated(repeat);
  if (known === 'other_body') throw new Problem('idempotency_key_reused');
  return known ?? (await regulations.create({ ...request, by, repeat }));
}

/** An id that receiving refuses can only be one that an earlier version has stored. */
async function refuseUnknownFaults(
  named: NamedIds,
  { type, userIds, anonymousIds }: Omit<RegulationRequest, 'by'>,
  regulations: RegulationRequests,
): Promise<void> {
  const faulty = (ids: readonly string[]) => ids.filter((id) => faultOf(id) !== undefined);
  const asked = { type, userIds: faulty(userIds), anonymousIds: faulty(anonymousIds) };
  if (asked.userIds.length + asked.anonymousIds.length === 0) return;
  const unknown = new Set(await regulations.unknown(asked));
  const errors = Object.entries(named).flatMap(([field, ids]) =>
    ids.flatMap((id, nth) =>
      unknown.has(id) && faultOf(id) !== undefined
        ? [{ path: `body.${field}[${nth}]`, message: `${faultOf(id)}; nobody has this one` }]
        : [],
    ),
  );
  if (errors.length > 0) throw new Problem('invalid_parameters', { errors: errors.slice(0, MOST_ERRORS) });
}

export function noRegulation(id: string): Problem {
  const hint = `${JSON.stringify(id)} is no regulation; GET /api/v1/regulations lists them.`;
  return new Problem('unknown_name', { hint });
}

/** Of one request. */
const MOST_ERRORS = 20;

function regulationView(
  regulation: Regulation,
  erasedFrom: ErasedFrom,
): Described<z.output<typeof regulationSchema>> {
  const { id, type, overallStatus, createdAt, erasedAt, finishedAt, by, silent, subjects, erased } =
    regulation;
  const { unknown = null, belongToUsers, joined, leftOut, untold, profiles } = regulation;
  const { streamStatus, reason } = regulation;
  return {
    ...{ id, type, overallStatus, createdAt: isoTime(createdAt) },
    ...defined({ erasedAt: isoTime(erasedAt), erasedFrom: erasedAt === undefined ? undefined : erasedFrom }),
    ...defined({ finishedAt: isoTime(finishedAt) }),
    by,
    ...defined({ silent }),
    ...{ subjects, unknown, erased },
    ...defined({ belongToUsers, joined: joined && [...joined], leftOut }),
    ...defined({ untold: untold && [...untold], profiles }),
    streamStatus: streamStatus.map(streamView),
    ...defined({ reason }),
  };
}

function streamView({ confirmedAt, ...stream }: NotificationStatus) {
  return confirmedAt === undefined ? stream : { ...stream, confirmedAt: isoTime(confirmedAt) };
}

function suppressionView({ since, ...suppression }: Suppression) {
  return { ...suppression, since: isoTime(since) };
}

/** The cursor behind an id. */
export function idCursorOf(id: string): string {
  return Buffer.from(id).toString('base64url');
}

export function parseIdCursor(cursor: string | undefined, path?: string): string | undefined {
  if (cursor === undefined) return undefined;
  const id = Buffer.from(cursor, 'base64url');
  if (id.toString('base64url') === cursor) return id.toString();
  throw invalidCursor(path);
}
