import { createRoute } from '@tanstack/react-router';
import { lazyPage } from '../../app/lazy-page.ts';
import { shellRoute } from '../../app/root-route.tsx';
import { textParameters } from '../../app/search.ts';

const liveRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/live',
  validateSearch: textParameters('source', 'type', 'destination', 'failed', 'q', 'open', 'from'),
  component: lazyPage(() => import('./live-page.tsx'), 'LivePage'),
});

export const liveRoutes = [liveRoute] as const;
