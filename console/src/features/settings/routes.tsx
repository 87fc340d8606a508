import { createRoute } from '@tanstack/react-router';
import { lazyPage } from '../../app/lazy-page.ts';
import { shellRoute } from '../../app/root-route.tsx';
import { KINDS, type RecordKind } from './record-kinds.ts';

interface AuditSearch {
  readonly kind?: RecordKind;
  readonly name?: string;
  /** Time of the open entry. */
  readonly at?: string;
}

/** The open dialog with a form: its address finds an unfinished form again. */
interface AlertsSearch {
  readonly new?: true;
  /** Name of the alert to change. */
  readonly edit?: string;
}

const tokensRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/settings',
  validateSearch: ({ new: isNew }: Record<string, unknown>): { readonly new?: true } =>
    String(isNew) === 'true' ? { new: true } : {},
  component: lazyPage(() => import('./tokens-page.tsx'), 'TokensPage'),
});

const alertsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/settings/alerts',
  validateSearch: ({ new: isNew, edit }: Record<string, unknown>): AlertsSearch => ({
    ...(String(isNew) === 'true' ? { new: true } : {}),
    ...(typeof edit === 'string' && edit !== '' ? { edit } : {}),
  }),
  component: lazyPage(() => import('./alerts-page.tsx'), 'AlertsPage'),
});

const auditRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/settings/audit',
  validateSearch: ({ kind, name, at }: Record<string, unknown>): AuditSearch => {
    const known = KINDS.find((one) => one === kind);
    return {
      ...(known === undefined ? {} : { kind: known }),
      ...(name === undefined || name === '' ? {} : { name: String(name) }),
      ...(typeof at === 'string' ? { at } : {}),
    };
  },
  component: lazyPage(() => import('./audit-page.tsx'), 'AuditPage'),
});

const configurationRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/settings/configuration',
  component: lazyPage(() => import('./configuration-page.tsx'), 'ConfigurationPage'),
});

const systemRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/settings/system',
  component: lazyPage(() => import('./system-page.tsx'), 'SystemPage'),
});

export const settingRoutes = [tokensRoute, alertsRoute, auditRoute, configurationRoute, systemRoute] as const;
