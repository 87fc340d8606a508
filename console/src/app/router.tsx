import type { QueryClient } from '@tanstack/react-query';
import { createRouter, Link } from '@tanstack/react-router';
import { destinationRoutes } from '../features/destinations/routes.tsx';
import { eventRoutes } from '../features/events/routes.tsx';
import { liveRoutes } from '../features/live/routes.tsx';
import { overviewRoutes } from '../features/overview/routes.tsx';
import { settingRoutes } from '../features/settings/routes.tsx';
import { sourceRoutes } from '../features/sources/routes.tsx';
import { userRoutes } from '../features/users/routes.tsx';
import { EmptyState, Failure, SkeletonRows } from '../ui/empty-state.tsx';
import { Page } from '../ui/page.tsx';
import { componentsRoute, rootRoute, shellRoute, signInRoute } from './root-route.tsx';
import { parseSearch, stringifySearch } from './search.ts';

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
    defaultNotFoundComponent: NotFound,
    defaultErrorComponent: ({ error, reset }) => (
      <Page title="This page failed">
        <Failure error={error} onRetry={reset} />
      </Page>
    ),
  });
}

function NotFound() {
  return (
    <Page title="Nothing here">
      <div className="box">
        <EmptyState title="No page has this address">
          A link may be old, or a name may have changed.{' '}
          <Link to="/" className="link">
            Overview
          </Link>{' '}
          leads on.
        </EmptyState>
      </div>
    </Page>
  );
}

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof createAppRouter>;
  }
}
