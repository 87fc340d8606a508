import { randomBytes } from 'node:crypto';
import * as z from 'zod';
import { MAX_ENTRIES } from '../../model/input-limits.ts';
import { defined } from '../../model/json.ts';
import { ROLES, type TokenRecord } from '../../model/settings.ts';
import { isoTime, type Time } from '../../model/time.ts';
import type { SettingsSnapshot } from '../../ports/settings-store.ts';
import { ADMIN_NAME, tokenDigest } from '../auth.ts';
import { diffRecords } from '../changes.ts';
import { type ApiOperation, defineOperation } from '../operation.ts';
import { pageByName, pageQuery, pageSchema, timeParameter } from '../pagination.ts';
import { type Fault, Problem } from '../problem.ts';
import type { RecordDependencies } from '../records.ts';
import { unknownName } from '../unknown-name.ts';
import { tokenView } from '../views.ts';

const tokenSchema = z.object({
  name: z.string(),
  role: z.enum(ROLES),
  hint: z.string(),
  createdAt: z.string(),
  expiresAt: z.string().exactOptional().meta({ description: 'When it ends; absent when it does not.' }),
  sources: z
    .array(z.string())
    .exactOptional()
    .meta({ description: 'With destinations: those that it is for. Both absent: all.' }),
  destinations: z.array(z.string()).exactOptional(),
  bodies: z.literal(false).exactOptional().meta({ description: 'It does not show what events hold.' }),
});

const usedTokenSchema = tokenSchema.extend({
  lastUsedAt: z.string().exactOptional().meta({
    description: 'When a request or a session of it was last answered by this node; absent when never.',
  }),
});

/** Names that the audit trail uses for authors without a token. They are compared in lower case. */
const RESERVED_NAMES: readonly string[] = [ADMIN_NAME, 'file'];

/** A name must not begin with a dot: proxies resolve `.` and `..` in a path. */
const NAME_RULE = 'must be 1 to 100 letters, digits, dots, dashes and underscores, and not begin with a dot';
const HINT_LENGTH = 4;

const LIMIT_RULE = 'must be a list of names';

const tokenInput = z.strictObject({
  name: z
    .string(NAME_RULE)
    .regex(/^[\w-][\w.-]{0,99}$/, NAME_RULE)
    .refine(
      (name) => !RESERVED_NAMES.includes(name.toLowerCase()),
      'must not be admin or file: the audit trail uses them',
    ),
  role: z.enum(ROLES, `must be one of ${ROLES.join(', ')}`),
  expiresAt: timeParameter
    .exactOptional()
    .meta({ description: 'When it ends. Absent: it is good until it is revoked.' }),
  sources: z.array(z.string(), LIMIT_RULE).max(MAX_ENTRIES).exactOptional().meta({
    description: 'It is for these sources and the destinations beside them, and for nothing else.',
  }),
  destinations: z.array(z.string(), LIMIT_RULE).max(MAX_ENTRIES).exactOptional(),
  bodies: z
    .boolean('must be true or false')
    .default(true)
    .meta({ description: 'false, of a viewer: it shows which events there are, and not what they hold.' }),
});

type TokenInput = z.output<typeof tokenInput>;

export interface TokenOperationDependencies extends Pick<RecordDependencies, 'settings' | 'clock' | 'types'> {
  /** The last use of a token that was made at a time. */
  readonly lastUse: (name: string, madeAt: Time) => Time | undefined;
}

/** spec/contract.md, "Tokens". */
export function tokenOperations({
  settings,
  clock,
  types,
  lastUse,
}: TokenOperationDependencies): ApiOperation[] {
  const usedView = (token: TokenRecord) => {
    const at = lastUse(token.name, token.createdAt);
    return { ...tokenView(token), ...defined({ lastUsedAt: isoTime(at) }) };
  };
  return [
    defineOperation({
      method: 'GET',
      path: 'tokens',
      role: 'admin',
      summary: 'Lists the tokens of the control API',
      isInMemory: true,
      query: z.object(pageQuery),
      answer: pageSchema(usedTokenSchema),
      run: async ({ query }) => pageByName(settings.now().tokens.map(usedView), query),
    }),
    defineOperation({
      method: 'POST',
      path: 'tokens',
      role: 'admin',
      status: 201,
      answersSecret: true,
      summary: 'Makes a token; the answer is the only place where it is ever shown',
      body: tokenInput,
      answer: tokenSchema.extend({ token: z.string() }),
      problems: ['name_taken'],
      run: async ({ body, by }) => {
        const token = `mr_${randomBytes(32).toString('base64url')}`;
        const record = tokenRecord(body, token, clock.now());
        await settings.change((now) => {
          const faults = faultsOf(body, now, clock.now());
          if (faults.length > 0) throw new Problem('invalid_parameters', { errors: faults });
          if (now.tokens.some(({ name }) => name === body.name)) throw new Problem('name_taken');
          return diffRecords({ tokens: [record] }, now, { by, clock, types });
        });
        return { ...tokenView(record), token };
      },
    }),
    defineOperation({
      method: 'DELETE',
      path: 'tokens/:name',
      role: 'admin',
      summary: 'Revokes a token at once',
      problems: ['unknown_name'],
      run: async ({ names, by }) => {
        const name = names['name'] ?? '';
        await settings.change((now) => {
          if (!now.tokens.some((one) => one.name === name)) throw unknownName(name, 'token', now.tokens);
          return diffRecords({ removed: [{ kind: 'token', name }] }, now, { by, clock, types });
        });
        return undefined;
      },
    }),
  ];
}

function tokenRecord(input: TokenInput, token: string, createdAt: Time): TokenRecord {
  const { name, role, expiresAt, sources = [], destinations = [], bodies } = input;
  return {
    name,
    role,
    digest: tokenDigest(token),
    hint: token.slice(-HINT_LENGTH),
    createdAt,
    ...defined({
      expiresAt,
      limits: hasLimits(input) ? { sources, destinations } : undefined,
      bodies: bodies ? undefined : false,
    }),
  };
}

function hasLimits({ sources, destinations }: TokenInput): boolean {
  return sources !== undefined || destinations !== undefined;
}

/**
 * A name that nothing has would make a token that is good for nothing, and a mistyped one would look like it.
 */
function faultsOf(input: TokenInput, now: SettingsSnapshot, at: Time): Fault[] {
  const { role, expiresAt, bodies } = input;
  const faults: Fault[] = [];
  const fault = (path: string, message: string) => faults.push({ path: `body.${path}`, message });
  if (expiresAt !== undefined && expiresAt <= at)
    fault('expiresAt', `must be later than now, which is ${isoTime(at)}`);
  for (const kind of ['sources', 'destinations'] as const) {
    const names = new Set(now[kind].map(({ name }) => name));
    for (const [nth, name] of (input[kind] ?? []).entries())
      if (!names.has(name)) fault(`${kind}[${nth}]`, 'is the name of no such record');
  }
  if (hasLimits(input)) {
    const { sources = [], destinations = [] } = input;
    if (sources.length + destinations.length === 0)
      fault(
        'sources',
        'must name a source, or destinations a destination: leave both out for a token of all',
      );
    if (role !== 'viewer' && role !== 'editor')
      fault('role', 'must be viewer or editor for a token of some sources or destinations');
  }
  if (!bodies && role !== 'viewer')
    fault('bodies', 'must be true for this role: only a viewer can be kept from what events hold');
  return faults;
}
