/* The order of paths: folder by folder, names by their bytes; as a walk meets them. */
#ifndef SEARCH_ORDER_H
#define SEARCH_ORDER_H

static inline int order_of_byte(char c)
{
    return c == '\0' ? -1 : c == '/' ? 0 : (unsigned char)c;
}

static inline int order_of_paths(const char *a, const char *b)
{
    for (; *a && *a == *b; a++)
        b++;
    return order_of_byte(*a) - order_of_byte(*b);
}

#endif
