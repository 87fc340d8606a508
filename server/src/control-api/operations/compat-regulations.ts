import * as z from 'zod';
import { defined } from '../../model/json.ts';
import { REGULATION_STATUSES, type Regulation, type RegulationStatus } from '../../model/regulation.ts';
import { isoTime, type Time } from '../../model/time.ts';
import type { RegulationRequest, RegulationRequests } from '../../regulations/contract.ts';
import { idInBody } from '../ids.ts';
import { type ApiOperation, defineOperation } from '../operation.ts';
import { parseNumberCursor } from '../pagination.ts';
import { Problem } from '../problem.ts';
import {
  idCursorOf,
  MAX_SUBJECTS,
  makeRegulation,
  noRegulation,
  parseIdCursor,
  type Requester,
} from './regulations.ts';

/**
 * Regulations and suppressions as the Public API of Segment and its older Config API take and show them, for
 * scripts that were written for these. They are the regulations of the control API: the same ids, the same
 * rules, the same receipts. What such a request asks and Millrace cannot do is refused, and never widened.
 */
export interface CompatDependencies {
  readonly regulations: RegulationRequests;
}

/** The regulation of a kind that those APIs name. */
type Meaning = Pick<Regulation, 'type' | 'silent'>;

const PUBLIC_TYPES = {
  SUPPRESS_WITH_DELETE: { type: 'SUPPRESS_WITH_DELETE' },
  SUPPRESS_WITH_DELETE_INTERNAL: { type: 'SUPPRESS_WITH_DELETE', silent: true },
  DELETE_ONLY: { type: 'DELETE_ONLY' },
  DELETE_INTERNAL: { type: 'DELETE_ONLY', silent: true },
  SUPPRESS_ONLY: { type: 'SUPPRESS_ONLY' },
  UNSUPPRESS: { type: 'UNSUPPRESS' },
} as const satisfies Record<string, Meaning>;

const OLDER_TYPES = {
  Suppress_With_Delete: PUBLIC_TYPES.SUPPRESS_WITH_DELETE,
  Suppress_With_Delete_Internal: PUBLIC_TYPES.SUPPRESS_WITH_DELETE_INTERNAL,
  Delete: PUBLIC_TYPES.DELETE_ONLY,
  Delete_Internal: PUBLIC_TYPES.DELETE_INTERNAL,
  Suppress: PUBLIC_TYPES.SUPPRESS_ONLY,
  Unsuppress: PUBLIC_TYPES.UNSUPPRESS,
} as const satisfies Record<string, Meaning>;

const ids = z.array(idInBody).min(1).max(MAX_SUBJECTS);

/** A value of a list; the message names those that there are. */
function oneOf<const Values extends readonly string[]>(values: Values, more = '') {
  return z.enum(values, `must be ${values.join(', ')}${more}`);
}

const publicInput = z.strictObject({
  regulationType: oneOf(
    Object.keys(PUBLIC_TYPES) as (keyof typeof PUBLIC_TYPES)[],
    ': there is no archive apart',
  ),
  subjectType: oneOf(
    ['USER_ID'],
    ': there are no objects here, and anonymous ids are taken by POST /api/v1/regulations',
  ),
  subjectIds: ids,
});

const olderInput = z.strictObject({
  regulation_type: oneOf(Object.keys(OLDER_TYPES) as (keyof typeof OLDER_TYPES)[]),
  attributes: z.strictObject({ name: oneOf(['userId'], ': there are no objects here'), values: ids }),
});

/** Records of one page, unless the request says how many. */
const PAGE = 10;
const MOST_OF_PAGE = 200;

const COUNT_RULE = `must be a whole number from 1 to ${MOST_OF_PAGE}`;
const count = z.coerce.number(COUNT_RULE).int(COUNT_RULE).min(1, COUNT_RULE).max(MOST_OF_PAGE, COUNT_RULE);

const pageInput = z
  .object({
    'pagination.count': count.exactOptional(),
    'pagination.cursor': z.string().exactOptional(),
    'pagination[count]': count.exactOptional(),
    'pagination[cursor]': z.string().exactOptional(),
  })
  .strict()
  .transform((query) => ({
    count: query['pagination.count'] ?? query['pagination[count]'] ?? PAGE,
    cursor: query['pagination.cursor'] ?? query['pagination[cursor]'],
  }));

const paginationSchema = z.object({ current: z.string(), next: z.string().exactOptional() });

const statusSchema = z.enum(REGULATION_STATUSES);

const regulationSchema = z.object({
  id: z.string(),
  workspaceId: z.string(),
  regulationType: z.string(),
  overallStatus: statusSchema,
  createdAt: z.string(),
  finishedAt: z.string().exactOptional(),
  leftOut: z.int().exactOptional(),
  streamStatus: z.array(
    z.object({
      id: z.string(),
      destinationStatus: z.array(
        z.object({
          name: z.string(),
          id: z.string(),
          status: statusSchema,
          errString: z.string(),
          finishedAt: z.string().exactOptional(),
        }),
      ),
    }),
  ),
});

type RegulationView = z.output<typeof regulationSchema>;

/** Their paths are below `/compat/`. spec/contract.md, "Regulations in the shapes of Segment". */
export function compatOperations(dependencies: CompatDependencies): ApiOperation[] {
  return [...publicOperations(dependencies), ...olderOperations(dependencies)];
}

function publicOperations({ regulations }: CompatDependencies): ApiOperation[] {
  return [
    defineOperation({
      method: 'POST',
      path: 'regulations',
      role: 'admin',
      summary: 'Makes a regulation in the shape of the Public API',
      body: publicInput,
      maxEntries: MAX_SUBJECTS,
      answer: z.object({ data: z.object({ regulateId: z.string() }) }),
      run: async ({ body: { regulationType, subjectIds }, ...input }) => {
        const { id } = await make(PUBLIC_TYPES[regulationType], subjectIds, input, regulations);
        return { data: { regulateId: id } };
      },
    }),
    ...['sources', 'cloudsources'].map((kind) => forOneSource(`regulations/${kind}/:id`)),
    defineOperation({
      method: 'GET',
      path: 'regulations',
      role: 'viewer',
      summary: 'Lists regulations in the shape of the Public API, the newest first',
      query: pageInput,
      answer: z.object({
        data: z.object({ regulations: z.array(z.looseObject({})), pagination: paginationSchema }),
      }),
      run: async ({ query }) => {
        const { found, pagination } = await pageOfRegulations(query, regulations);
        return { data: { regulations: found.map(listed), pagination } };
      },
    }),
    defineOperation({
      method: 'GET',
      path: 'regulations/:id',
      role: 'viewer',
      summary: 'Shows a regulation in the shape of the Public API',
      answer: z.object({ data: z.object({ regulation: regulationSchema }) }),
      run: async ({ names }) => ({ data: { regulation: viewOf(await find(names['id'], regulations)) } }),
    }),
    defineOperation({
      method: 'GET',
      path: 'suppressions',
      role: 'viewer',
      summary: 'Lists suppressed users whose ids are kept, in the shape of the Public API',
      query: pageInput,
      answer: z.object({
        data: z.object({ suppressed: z.array(z.looseObject({})), pagination: paginationSchema }),
      }),
      run: async ({ query: { count, cursor = '' } }) => {
        const found = await regulations.suppressions(
          count + 1,
          cursor === '' ? undefined : parseIdCursor(cursor, 'query.pagination.cursor'),
        );
        const shown = found.slice(0, count).map(({ userId }) => userId!);
        const next = found.length > count ? idCursorOf(shown.at(-1)!) : undefined;
        const suppressed = shown.map((userId) => ({ subjectType: 'USER_ID', subjectIds: [userId] }));
        return { data: { suppressed, pagination: { current: cursor, ...defined({ next }) } } };
      },
    }),
  ];
}

/** The same below `v1beta/workspaces/<any>/`, in the words of the older API. */
function olderOperations({ regulations }: CompatDependencies): ApiOperation[] {
  const root = 'v1beta/workspaces/:workspace';
  return [
    defineOperation({
      method: 'POST',
      path: `${root}/regulations`,
      role: 'admin',
      summary: 'Makes a regulation in the shape of the Config API',
      body: olderInput,
      maxEntries: MAX_SUBJECTS,
      answer: z.object({ regulate_id: z.string() }),
      run: async ({ body: { regulation_type: type, attributes }, ...input }) => {
        const { id } = await make(OLDER_TYPES[type], attributes.values, input, regulations);
        return { regulate_id: id };
      },
    }),
    forOneSource(`${root}/sources/:id/regulations`),
    defineOperation({
      method: 'GET',
      path: `${root}/regulations`,
      role: 'viewer',
      summary: 'Lists regulations in the shape of the Config API, the newest first',
      query: z
        .object({ page_size: count.exactOptional(), page_token: z.string().exactOptional() })
        .strict()
        .transform((query) => ({ count: query.page_size ?? PAGE, cursor: query.page_token })),
      answer: z.looseObject({}),
      run: async ({ query }) => {
        const { found, pagination } = await pageOfRegulations(query, regulations);
        const { next } = pagination;
        return {
          regulations: found.map((one) => snakeCase(listed(one))),
          ...defined({ next_page_token: next }),
        };
      },
    }),
    defineOperation({
      method: 'GET',
      path: `${root}/regulations/:id`,
      role: 'viewer',
      summary: 'Shows a regulation in the shape of the Config API',
      answer: z.looseObject({}),
      run: async ({ names }) => snakeCase(viewOf(await find(names['id'], regulations))) as object,
    }),
  ];
}

/** There is no deletion for one source alone. It would be wrong to delete more than was asked for. */
function forOneSource(path: string): ApiOperation {
  return defineOperation({
    method: 'POST',
    path,
    role: 'admin',
    summary: 'Refuses a regulation for one source',
    run: async () => {
      const message =
        'must be that of all sources: a user is deleted everywhere or nowhere. Send it to the same path without the source';
      throw new Problem('invalid_parameters', { errors: [{ path: 'path', message }] });
    },
  });
}

async function make(
  meaning: Meaning,
  subjectIds: readonly string[],
  requester: Requester,
  regulations: RegulationRequests,
): Promise<Regulation> {
  const named = { subjectIds, anonymousIds: [] };
  const request: Omit<RegulationRequest, 'by'> = {
    ...meaning,
    userIds: [...new Set(subjectIds)],
    anonymousIds: [],
  };
  return await makeRegulation(named, request, requester, regulations);
}

async function find(id = '', regulations: RegulationRequests): Promise<Regulation> {
  const found = await regulations.get(id);
  if (found === undefined) throw noRegulation(id);
  return found;
}

async function pageOfRegulations(
  { count, cursor = '' }: { readonly count: number; readonly cursor?: string | undefined },
  regulations: RegulationRequests,
) {
  const below = parseNumberCursor(cursor === '' ? undefined : cursor, 'query.pagination.cursor');
  const all = await regulations.list(count + 1, below);
  const found = all.slice(0, count);
  const next = all.length > count ? String(found.at(-1)!.number) : undefined;
  return { found, pagination: { current: cursor, ...defined({ next }) } };
}

/** The ids of its subjects are not shown: a receipt does not keep them. */
function listed(regulation: Regulation) {
  const { id, overallStatus, createdAt, finishedAt } = regulation;
  return {
    ...{ id, regulationType: typeOf(regulation), subjectType: 'USER_ID', subjects: [] },
    ...{ status: overallStatus, createdAt: isoTime(createdAt) },
    ...defined({ finishedAt: isoTime(finishedAt) }),
  };
}

function viewOf(regulation: Regulation): RegulationView {
  const { id, overallStatus, createdAt, finishedAt, leftOut, streamStatus } = regulation;
  const bySource = Map.groupBy(streamStatus, ({ source }) => source);
  return {
    ...{ id, workspaceId: 'millrace', regulationType: typeOf(regulation), overallStatus },
    createdAt: isoTime(createdAt),
    ...defined({ finishedAt: isoTime(finishedAt), leftOut }),
    streamStatus: [...bySource].map(([source, streams]) => ({
      id: source,
      destinationStatus: [...Map.groupBy(streams, ({ destination }) => destination)].map(destinationStatus),
    })),
  };
}

/** One for all endpoints of a destination. */
function destinationStatus([name, endpoints]: [string, Regulation['streamStatus'][number][]]) {
  const status = overall(endpoints.map((one) => one.status));
  const refused = endpoints.find((one) => one.status !== 'FINISHED')?.answer;
  const errString = refused?.reason ?? (refused?.status === undefined ? '' : `status ${refused.status}`);
  const last = endpoints.reduce<Time>((latest, { confirmedAt = 0 }) => Math.max(latest, confirmedAt), 0);
  return {
    ...{ name, id: name, status, errString },
    ...defined({ finishedAt: status === 'FINISHED' ? isoTime(last) : undefined }),
  };
}

function overall(statuses: readonly RegulationStatus[]): RegulationStatus {
  const [first] = statuses;
  if (statuses.every((status) => status === first)) return first!;
  return statuses.some((status) => status === 'RUNNING' || status === 'INITIALIZED')
    ? 'RUNNING'
    : 'PARTIAL_SUCCESS';
}

/** The type as the Public API names it. */
function typeOf({ type, silent }: Pick<Regulation, 'type' | 'silent'>): string {
  const entries: [string, Meaning][] = Object.entries(PUBLIC_TYPES);
  const same = entries.find(([, meaning]) => meaning.type === type && meaning.silent === silent);
  return same?.[0] ?? type;
}

/** A value with the names of its keys in snake case. */
function snakeCase(value: unknown): object | unknown {
  if (Array.isArray(value)) return value.map(snakeCase);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [
      key.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      snakeCase(one),
    ]),
  );
}
