import { filesOf } from '../src/import-config/files.ts';
import { readPublicApi } from '../src/import-config/public-api.ts';
import { StoredAnswers } from '../src/import-config/public-api-files.ts';
import { type Translated, translate } from '../src/import-config/translate.ts';
import type { Workspace } from '../src/import-config/workspace.ts';

export type Body = Readonly<Record<string, unknown>>;

export const SOURCE = {
  id: 's',
  name: 'Site',
  enabled: true,
  writeKeys: ['wk'],
  metadata: { slug: 'javascript', categories: ['Website'] },
};
export const CLASSIC = { id: '54521fdc25e721e32a72ef04', name: 'Webhooks', slug: 'webhooks' };
export const ACTIONS = {
  id: '614a3c7d791c91c41bae7599',
  name: 'Webhooks (Actions)',
  slug: 'actions-webhook',
};
export const DESTINATION = {
  id: 'd',
  name: 'CRM',
  enabled: true,
  sourceId: 's',
  metadata: CLASSIC,
  settings: { globalHook: 'https://a.example', hooks: [], sharedSecret: 'secret-secret-secret' },
};

/** All answers that are needed for a workspace in which nothing stands between a source and a destination. */
export const ANSWERS: Readonly<Record<string, Body>> = {
  '/': { workspace: { id: 'w', name: 'Shop' } },
  '/sources': { sources: [SOURCE] },
  '/destinations': { destinations: [DESTINATION] },
  '/destination/d/filters': { filters: [] },
  '/tracking-plans': { trackingPlans: [] },
  '/functions': { functions: [] },
  '/insert-function-instances': { insertFunctionInstances: [] },
  '/transformations': { transformations: [] },
  '/spaces': { spaces: [] },
  '/suppressions': { suppressed: [] },
};

/** `more`: answers in place of those, or beside them; one that is undefined is not there. */
export async function workspaceOf(
  more: Readonly<Record<string, Body | undefined>> = {},
  none: readonly string[] = [],
): Promise<Workspace> {
  const answers = new StoredAnswers();
  for (const [path, data] of Object.entries({ ...ANSWERS, ...more }))
    if (data !== undefined) answers.add(`GET ${path}`, { data });
  return await readPublicApi(answers, none);
}

export async function imported(more: Readonly<Record<string, Body | undefined>> = {}): Promise<Translated> {
  return translate(await workspaceOf(more), {});
}

export const withSettings = (settings: Body) => ({
  '/destinations': { destinations: [{ ...DESTINATION, settings }] },
});

export const withMappings = (...mappings: readonly Body[]) => ({
  '/destinations': { destinations: [{ ...DESTINATION, metadata: ACTIONS, settings: {} }] },
  '/destinations/d/subscriptions': {
    subscriptions: mappings.map((settings, nth) => ({
      id: `m${nth}`,
      enabled: true,
      trigger: 'type = "track"',
      ...settings,
    })),
  },
});

export function lineOf({ report }: Translated, kind: string, id: string) {
  return report.things.find((one) => one.kind === kind && one.id === id);
}

/** The only destination, as a file has it. */
export function destinationIn(result: Translated) {
  return result.records.destinations[0] as never as
    | {
        name: string;
        enabled: boolean;
        sources: string[];
        settings: {
          endpoints: { url: string; headers: object }[];
          success: string;
          filter?: object;
          userAgent?: string;
        };
      }
    | undefined;
}

/** Throws where `plan` would refuse a file. */
export const filesThatApply = (result: Translated) => filesOf(result, 'millrace.yaml');
