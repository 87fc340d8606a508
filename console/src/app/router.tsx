import type { QueryClient } from '@tanstack/react-query';
import { createRouter } from '@tanstack/react-router';
import { destinationRoutes } from '../features/destinations/routes.tsx';
import { eventRoutes } from '../features/events/routes.tsx';
import { liveRoutes } from '../features/live/routes.tsx';
import { overviewRoutes } from '../features/overview/routes.tsx';
import { settingRoutes } from '../features/settings/routes.tsx';
import { sourceRoutes } from '../features/sources/routes.tsx';
import { userRoutes } from '../features/users/routes.tsx';
import { Failure, SkeletonRows } from '../ui/empty-state.tsx';
import { Page } from '../ui/page.tsx';
import { componentsRoute, rootRoute, shellRoute, signInRoute, unknownRoute } from './root-route.tsx';
import { parseSearch, stringifySearch } from './search.ts';
import { UnknownPage } from './unknown-page.tsx';

const routeTree = rootRoute.addChildren([
  signInRoute,
  shellRoute.addChildren([
    ...overviewRoutes,
    ...liveRoutes,
    ...eventRoutes,
    ...destinationRoutes,
    ...sourceRoutes,
    ...userRoutes,
    ...settingRoutes,
    componentsRoute,
    unknownRoute,
  ]),
]);

export function createAppRouter(queryClient: QueryClient) {
  return createRouter({
    routeTree,
    context: { queryClient },
    parseSearch,
    stringifySearch,
    defaultPreload: 'intent',
    scrollRestoration: true,
    defaultPendingComponent: () => (
      <div className="page">
        <SkeletonRows />
      </div>
    ),
    defaultNotFoundComponent: UnknownPage,
    defaultErrorComponent: ({ error, reset }) => (
      <Page title="This page failed">
        <Failure error={error} onRetry={reset} />
      </Page>
    ),
  });
}

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof createAppRouter>;
  }
}
