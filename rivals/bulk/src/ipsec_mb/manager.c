// The state that every call of ipsec-mb takes.

#include "manager.h"

#include <stddef.h>

IMB_MGR *widelane_manager(void)
{
    IMB_MGR *manager = alloc_mb_mgr(0);
    if (manager == NULL)
        return NULL;
    init_mb_mgr_auto(manager, NULL);
    return imb_get_errno(manager) == 0 ? manager : NULL;
}
