import { createRoute } from '@tanstack/react-router';
import { ID_PARAMETERS } from '../../api/ids.ts';
import { lazyPage } from '../../app/lazy-page.ts';
import { shellRoute } from '../../app/root-route.tsx';
import { textParameters } from '../../app/search.ts';

interface ListSearch {
  /**
   * Shows the form of a new record in the place of the list. A path of its own would be the path of a record
   * with that name.
   */
  readonly new?: true;
}

function listSearch(search: Record<string, unknown>): ListSearch {
  return String(search['new']) === 'true' ? { new: true } : {};
}

/** Ids are in the query: they may be anything, also the name of a page. */
const profilesRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/users',
  validateSearch: textParameters(...ID_PARAMETERS),
  component: lazyPage(() => import('./profiles-page.tsx'), 'ProfilesPage'),
});

const audiencesRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/users/audiences',
  validateSearch: listSearch,
  component: lazyPage(() => import('./computations-page.tsx'), 'AudiencesPage'),
});

const audienceRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/users/audiences/$name',
  component: lazyPage(() => import('./computation-page.tsx'), 'AudiencePage'),
});

const traitsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/users/traits',
  validateSearch: listSearch,
  component: lazyPage(() => import('./computations-page.tsx'), 'TraitsPage'),
});

const traitRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/users/traits/$name',
  component: lazyPage(() => import('./computation-page.tsx'), 'TraitPage'),
});

const deletionsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/users/deletions',
  validateSearch: listSearch,
  component: lazyPage(() => import('./deletions-page.tsx'), 'DeletionsPage'),
});

const deletionRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/users/deletions/$id',
  component: lazyPage(() => import('./deletion-page.tsx'), 'DeletionPage'),
});

const suppressionsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/users/suppressions',
  component: lazyPage(() => import('./suppressions-page.tsx'), 'SuppressionsPage'),
});

export const userRoutes = [
  profilesRoute,
  audiencesRoute,
  audienceRoute,
  traitsRoute,
  traitRoute,
  deletionsRoute,
  deletionRoute,
  suppressionsRoute,
] as const;
