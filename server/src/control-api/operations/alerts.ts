import * as z from 'zod';
import type { AlertHealth, AlertSending } from '../../alerts/contract.ts';
import { ALERT_CONDITIONS, type AlertRecord } from '../../model/alert.ts';
import { defined, type JsonObject } from '../../model/json.ts';
import { isoTime } from '../../model/time.ts';
import type { SettingsSnapshot } from '../../ports/settings-store.ts';
import { diffRecords } from '../changes.ts';
import { type ApiOperation, defineOperation, type OperationInput, TaggedResult } from '../operation.ts';
import { pageByName, pageQuery, pageSchema } from '../pagination.ts';
import { Problem } from '../problem.ts';
import {
  checkEndpoints,
  checkRecord,
  type EndpointCheckDependencies,
  etagOf,
  maskSchema,
  mergePatch,
  type RecordDependencies,
  recordInput,
  refuseStale,
  warningsSchema,
} from '../records.ts';
import { TestLimit } from '../test-limit.ts';
import { unknownName } from '../unknown-name.ts';
import { alertView, toJson, unmaskAlert } from '../views.ts';
import { refuseRenaming } from './sources.ts';

export interface AlertOperationDependencies extends RecordDependencies, EndpointCheckDependencies {
  readonly alerts: {
    readonly health: () => readonly AlertHealth[];
    /** Sends a message that says that it is a test, once, and keeps nothing. */
    readonly test: (alert: AlertRecord) => Promise<AlertSending>;
  };
}

const sendingShape = {
  outcome: z.enum(['taken', 'failed']),
  receiver: z.string(),
  status: z.int().exactOptional(),
  answer: z.string(),
  latencyMs: z.number(),
};

const webhookSchema = z.object({
  url: z.string(),
  headers: z.record(z.string(), z.union([z.string(), maskSchema])),
  signingSecrets: z.array(maskSchema).exactOptional(),
});

const mailboxSchema = z.object({
  server: z.string(),
  user: z.string().exactOptional(),
  password: maskSchema.exactOptional(),
  from: z.string(),
  to: z.array(z.string()),
});

const alertSchema = z.object({
  name: z.string(),
  type: z.enum(['webhook', 'email']),
  enabled: z.boolean(),
  on: z.array(z.enum(ALERT_CONDITIONS)),
  destinations: z.array(z.string()).exactOptional(),
  after: z.string(),
  remindEvery: z.string(),
  settings: z.union([webhookSchema, mailboxSchema]),
  open: z
    .array(
      z.object({
        condition: z.enum(ALERT_CONDITIONS),
        destination: z.string().exactOptional(),
        since: z.string(),
      }),
    )
    .meta({ description: 'What its receivers were told of and is not over.' }),
  isWaiting: z.boolean().meta({ description: 'A message was not taken yet and is sent again.' }),
  last: z
    .object({ at: z.string(), ...sendingShape })
    .exactOptional()
    .meta({ description: 'The last message since the start of the server.' }),
});

const changedSchema = alertSchema.extend({ warnings: warningsSchema.exactOptional() });

const alertInput = recordInput.meta({
  description: 'As in the configuration file, `alerts[]`: spec/config.schema.json.',
});

/** spec/contract.md, "Operations on alerts". */
export function alertOperations(dependencies: AlertOperationDependencies): ApiOperation[] {
  const { settings } = dependencies;
  return [
    defineOperation({
      method: 'GET',
      path: 'alerts',
      role: 'viewer',
      summary: 'Lists the alerts by name, with what they have told and how the last message fared',
      isInMemory: true,
      query: z.object(pageQuery),
      answer: pageSchema(alertSchema),
      run: async ({ query }) => pageByName(settings.now().alerts.map(shown(dependencies)), query),
    }),
    defineOperation({
      method: 'POST',
      path: 'alerts',
      role: 'editor',
      status: 201,
      sharesAnswer: true,
      isTagged: true,
      summary: 'Creates an alert',
      body: alertInput,
      described: dependencies.schemas.alert,
      answer: changedSchema,
      problems: ['name_taken'],
      run: ({ body, by }) =>
        saveAlert(() => recordOnly(body), { by, isNew: true, name: String(body['name']) }, dependencies),
    }),
    defineOperation({
      method: 'GET',
      path: 'alerts/:name',
      role: 'viewer',
      isTagged: true,
      isInMemory: true,
      summary: 'Shows an alert',
      answer: alertSchema,
      problems: ['unknown_name'],
      run: async ({ names }) => tagged(alertByName(names['name'], settings.now()), dependencies),
    }),
    defineOperation({
      method: 'PATCH',
      path: 'alerts/:name',
      role: 'editor',
      isTagged: true,
      summary: 'Changes an alert by a JSON merge patch',
      body: alertInput,
      answer: changedSchema,
      problems: ['unknown_name'],
      run: (input) => patchAlert(input, recordOnly(input.body), dependencies),
    }),
    defineOperation({
      method: 'DELETE',
      path: 'alerts/:name',
      role: 'editor',
      isTagged: true,
      summary: 'Removes an alert',
      problems: ['unknown_name'],
      run: (input) => removeAlert(input, dependencies),
    }),
    testOperation(dependencies),
  ];
}

function testOperation({ settings, alerts, clock }: AlertOperationDependencies): ApiOperation {
  const limit = new TestLimit(clock);
  return defineOperation({
    method: 'POST',
    path: 'alerts/:name/test',
    role: 'editor',
    isInMemory: true,
    summary: 'Sends a message that says that it is a test, once, and shows what the receiver answered',
    body: z.strictObject({}),
    answer: z.object(sendingShape),
    problems: ['unknown_name', 'too_many_tests'],
    run: async ({ names }) => {
      const alert = alertByName(names['name'], settings.now());
      limit.take();
      return sendingView(await alerts.test(alert));
    },
  });
}

/** Drops what only answers have, so that an answer can be sent back as it came. */
function recordOnly({ open: _, isWaiting: _1, last: _2, warnings: _3, ...record }: JsonObject): JsonObject {
  return record;
}

function patchAlert(
  { names, by, ifMatch }: Pick<OperationInput, 'names' | 'by' | 'ifMatch'>,
  body: JsonObject,
  dependencies: AlertOperationDependencies,
): Promise<TaggedResult> {
  const name = names['name'] ?? '';
  const wish = async (now: SettingsSnapshot) => {
    const before = alertByName(name, now);
    await refuseStale({ ifMatch, tag: tagOf(before) }, { kind: 'alert', name }, dependencies);
    const merged = mergePatch(toJson(alertView(before)), body);
    refuseRenaming(name, merged);
    // A change of the type leaves nothing of the other type's settings behind.
    const isOther = merged['type'] !== before.type;
    return isOther ? { ...merged, settings: body['settings'] ?? {} } : merged;
  };
  return saveAlert(wish, { by, isNew: false, name }, dependencies);
}

interface AlertChange {
  readonly by: string;
  readonly isNew: boolean;
  readonly name: string;
}

async function saveAlert(
  wish: (now: SettingsSnapshot) => JsonObject | Promise<JsonObject>,
  { by, isNew, name }: AlertChange,
  dependencies: AlertOperationDependencies,
): Promise<TaggedResult> {
  const { settings, clock, check, types } = dependencies;
  const recordOf = async (now: SettingsSnapshot) => {
    const stored = now.alerts.find((one) => one.name === name);
    return checkRecord('alerts', unmaskAlert(await wish(now), stored), { now, check });
  };
  const record = await recordOf(settings.now());
  // Before the change, because other changes would wait while names are looked up.
  const found = await checkEndpoints([], settings.now(), {
    ...dependencies,
    alerts: [{ path: 'body', record }],
  });
  const { alerts } = await settings.change(async (now) => {
    const alert = await recordOf(now);
    if (isNew && now.alerts.some((one) => one.name === alert.name)) throw new Problem('name_taken');
    return diffRecords({ alerts: [alert] }, now, { by, clock, types });
  });
  const result = tagged(alertByName(record.name, { alerts }), dependencies);
  return found.length === 0 ? result : new TaggedResult({ ...result.value, warnings: found }, result.tag);
}

async function removeAlert(
  { names, by, ifMatch }: Pick<OperationInput, 'names' | 'by' | 'ifMatch'>,
  dependencies: AlertOperationDependencies,
): Promise<undefined> {
  const name = names['name'] ?? '';
  const { settings, clock, types } = dependencies;
  await settings.change(async (now) => {
    const tag = tagOf(alertByName(name, now));
    await refuseStale({ ifMatch, tag }, { kind: 'alert', name }, dependencies);
    return diffRecords({ removed: [{ kind: 'alert', name }] }, now, { by, clock, types });
  });
}

function shown({ alerts }: Pick<AlertOperationDependencies, 'alerts'>) {
  const healths = new Map(alerts.health().map((health) => [health.alert, health]));
  return (alert: AlertRecord) => {
    const { last, isWaiting = false } = healths.get(alert.name) ?? {};
    const open = (alert.memory?.told ?? []).map(({ condition, destination, since }) => ({
      condition,
      ...defined({ destination }),
      since: isoTime(since),
    }));
    return {
      ...alertView(alert),
      open,
      isWaiting,
      ...defined({ last: last && { at: isoTime(last.at), ...sendingView(last) } }),
    };
  };
}

function sendingView({ kind, receiver, status, answer, latencyMs }: AlertSending) {
  return { outcome: kind, receiver, ...defined({ status }), answer, latencyMs };
}

/** Without what the server remembers, which changes by itself. */
function tagOf(alert: AlertRecord): string {
  return etagOf(alertView(alert));
}

function tagged(alert: AlertRecord, dependencies: Pick<AlertOperationDependencies, 'alerts'>): TaggedResult {
  return new TaggedResult(shown(dependencies)(alert), tagOf(alert));
}

function alertByName(name: string | undefined, { alerts }: Pick<SettingsSnapshot, 'alerts'>): AlertRecord {
  const alert = alerts.find((one) => one.name === name);
  if (alert !== undefined) return alert;
  throw unknownName(name ?? '', 'alert', alerts);
}
